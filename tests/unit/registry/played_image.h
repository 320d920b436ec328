// Helpers that put images into registries that a test plays, and that make layers of new images.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "cli/image/compose.h"
#include "cli/registry/base.h"
#include "tests/unit/registry/played_registry.h"

// Puts an image with these layers into the registry, and returns the digest of its manifest.
inline std::string add_image(PlayedRegistry& played, const std::string& repository, const std::string& tag,
                             const std::vector<std::string>& layers,
                             const std::string& architecture = "amd64") {
  using nlohmann::json;
  json ids = json::array(), described = json::array();
  for (const std::string& layer : layers) {
    const std::string digest = played.add_blob(repository, layer);
    ids.push_back(digest);
    described.push_back(
        {{"mediaType", mlk::image::oci_types.layer}, {"digest", digest}, {"size", layer.size()}});
  }
  const std::string configuration = json{{"os", "linux"},
                                         {"architecture", architecture},
                                         {"rootfs", {{"type", "layers"}, {"diff_ids", ids}}}}
                                        .dump();
  const std::string manifest = json{
      {"schemaVersion", 2},
      {"mediaType", mlk::image::oci_types.manifest},
      {"config",
       {{"mediaType", mlk::image::oci_types.configuration},
        {"digest", played.add_blob(repository, configuration)},
        {"size", configuration.size()}}},
      {"layers", described}}.dump();
  const std::string digest = "sha256:" + mlk::sha256_hex(manifest);
  const std::lock_guard lock(played.mutex);
  played.manifests[repository][digest] = manifest;
  if (!tag.empty()) played.manifests[repository][tag] = manifest;
  return digest;
}

// Writes a layer with one file, mlk, into this folder.
inline mlk::image::Addition own_layer(const TemporaryFolder& folder, const std::string& content,
                                      const std::string& purpose = "code") {
  mlk::image::LayerWriter writer(folder.path() / ("layer-" + purpose));
  writer.add({.path = "mlk"}, content);
  return {writer.finish(), purpose};
}
