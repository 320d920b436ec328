// Composes a new image: the content of a base image, or nothing, with new layers above it. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/image/layer.h"
#include "cli/image/manifest.h"

namespace mlk::image {

struct Base {
  Manifest manifest;
  Configuration configuration;
};

struct Addition {
  Layer layer;
  std::string purpose;  // "code", "python", "runtime": in the image's history, and in its manifest
};

// Settings of the image configuration.
struct Settings {
  Platform platform{};                                     // of an image without a base
  std::vector<std::pair<std::string, std::string>> env{};  // each replaces the variable of the same name
  std::string workdir{}, user{};                           // empty: as in the base
  std::vector<std::string> entrypoint{};  // empty: as in the base; else it replaces the command too
};

struct Composed {
  std::string manifest, configuration;  // bytes of the documents: the same for the same arguments
  std::string manifest_type;
  Descriptor configuration_blob;
  std::string digest;               // of the manifest
  std::vector<Descriptor> of_base;  // layers of the base
  std::vector<Layer> own;           // layers above the base
};

// The media types are those of the base, or OCI's if there is no base. Times are fixed, so that the digest
// depends only on the content of the image.
Composed compose(const std::optional<Base>& base, const std::vector<Addition>& additions,
                 const Settings& settings);

}  // namespace mlk::image
