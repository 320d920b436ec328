// Sends an image to a registry: what is there is not sent again, and the manifest comes last.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cli/image/compose.h"
#include "cli/registry/base.h"
#include "cli/registry/registry.h"

namespace mlk::registry {

// For a display in another thread.
struct PushProgress {
  std::atomic<std::uint64_t> sent{0};  // bytes, of blobs that had to go out; more than `all` after losses
  std::atomic<std::uint64_t> all{0};   // bytes to send, as far as it is known
  std::atomic<unsigned> blobs_left{0};
};

struct Pushed {
  std::string digest;  // of the manifest
  unsigned layers_sent = 0, layers_there = 0, layers_mounted = 0;
  std::uint64_t bytes_sent = 0;  // of layers and the configuration
};

// `base`: where the lower layers come from; they are mounted within a registry, else streamed through, and
// never stored here. Up to four blobs go at once. Throws Error; a tag never names an image of which a part is
// missing.
Pushed push(Registry& registry, const image::Reference& target, const image::Composed& composed,
            const std::optional<FoundImage>& base, PushProgress& progress);

}  // namespace mlk::registry
