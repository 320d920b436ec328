// Finds the base image of a new image, and reads the manifests and the configuration of the base.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "cli/image/compose.h"
#include "cli/image/libc.h"
#include "cli/registry/registry.h"

namespace mlk::registry {

struct FoundImage {
  std::shared_ptr<Registry> registry;  // the registry that has the image: its own, or a mirror
  image::Reference reference;          // the requested reference, with the digest of the manifest
  image::Base image;
  std::uint64_t size = 0;  // bytes of all layers
};

// `platform`: selects the image in an index. nullopt: the only platform of the index, or else the platform of
// this machine. Before find_image() reads the configuration, it calls `know_layers` with a result that still
// lacks the configuration. Throws Error{not_found} if there is no such image, or no image for the platform,
// and the errors of Registry.
FoundImage find_image(const Access& access, const image::Reference& reference,
                      const std::optional<image::Platform>& platform,
                      const std::function<void(const FoundImage&)>& know_layers = {});

// The C library of the programs of an image. Reads the layers in their order, until a file implies the C
// library, but at most 256 MiB. nullopt if no file in these bytes implies a C library. Throws the errors of
// Registry.
std::optional<image::Libc> libc_of(const FoundImage& image);

// linux, and the architecture of this machine's processor.
image::Platform own_platform();

}  // namespace mlk::registry
