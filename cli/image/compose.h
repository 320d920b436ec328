// A new image: what another one has, or nothing, and layers above that. Pure.
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

// Of the configuration.
struct Settings {
  Platform platform{};                                     // of an image without a base
  std::vector<std::pair<std::string, std::string>> env{};  // replace those of the same name
  std::string workdir{}, user{};                           // empty: as they are
  std::vector<std::string> entrypoint{};  // empty: as it is; else it replaces the command too
};

struct Composed {
  std::string manifest, configuration;  // their bytes: the same for the same arguments
  std::string manifest_type;
  Descriptor configuration_blob;
  std::string digest;               // of the manifest
  std::vector<Descriptor> of_base;  // its layers
  std::vector<Layer> own;           // those above
};

// The media types are those of the base; without one, OCI's. Times are fixed, so that the digest says what is
// in the image and nothing else.
Composed compose(const std::optional<Base>& base, const std::vector<Addition>& additions,
                 const Settings& settings);

}  // namespace mlk::image
