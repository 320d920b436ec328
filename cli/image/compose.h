// Composes a new image from new layers, which lie above the layers of a base image if there is one. Pure.
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
  std::string purpose;  // "code", "python", "runtime"; stands in the history and the manifest of the image
};

// Settings of the image configuration.
struct Settings {
  Platform platform{};                                     // used only without a base
  std::vector<std::pair<std::string, std::string>> env{};  // sets or replaces variables of the base
  std::string workdir{}, user{};                           // empty: as in the base
  std::vector<std::string> entrypoint{};  // empty: as in the base; otherwise the base's command is removed
};

struct Composed {
  std::string manifest, configuration;  // the documents; equal arguments give equal bytes
  std::string manifest_type;
  Descriptor configuration_blob;
  std::string digest;               // of the manifest
  std::vector<Descriptor> of_base;  // layers of the base
  std::vector<Layer> own;           // layers above the base
};

// The new image has the media types of its base, or OCI's if there is no base. Times are fixed, so that the
// digest depends only on the content of the image.
Composed compose(const std::optional<Base>& base, const std::vector<Addition>& additions,
                 const Settings& settings);

}  // namespace mlk::image
