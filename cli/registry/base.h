// The image on which another one is built: read as manifests only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/image/compose.h"
#include "cli/image/libc.h"
#include "cli/registry/registry.h"

namespace mlk::registry {

struct FoundImage {
  std::shared_ptr<Registry> registry;  // where it was found: its own, or a mirror
  image::Reference reference;          // as it was asked for, with the digest of the manifest
  image::Base image;
  std::uint64_t size = 0;  // bytes of all layers
};

// `platform`: of an image for several; nullopt: that of this machine, or the only one. `know_layers` is
// called with all but the configuration, before that is read. Throws Error: not_found if there is no such
// image, or none for the platform; and as Registry.
FoundImage find_image(const Access& access, const image::Reference& reference,
                      const std::optional<image::Platform>& platform,
                      const std::function<void(const FoundImage&)>& know_layers = {});

// The C library of its programs, from the beginning of its layers, which are read until it is seen;
// nullopt if they do not tell. Throws as Registry.
std::optional<image::Libc> libc_of(const FoundImage& image);

// linux, and the architecture of this machine's processor.
image::Platform own_platform();

}  // namespace mlk::registry
