// Sends an image to a registry. Blobs that the registry has are not sent again. The manifest is sent last.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <optional>
#include <set>
#include <string>

#include "cli/image/compose.h"
#include "cli/registry/base.h"
#include "cli/registry/registry.h"

namespace mlk::registry {

// The progress of a push, for a display in another thread.
struct PushProgress {
  std::atomic<std::uint64_t> sent{0};  // bytes; may exceed `all`, because lost parts are sent again
  std::atomic<std::uint64_t> all{0};   // bytes to send, as far as known
  std::atomic<unsigned> blobs_left{0};
};

struct Pushed {
  std::string digest;  // of the manifest
  unsigned layers_sent = 0, layers_there = 0, layers_mounted = 0;
  std::uint64_t bytes_sent = 0;  // of layers and the configuration
};

// Mounts the layers of a base from another repository of the same registry. Separate threads do this while
// mlk still makes the layers above the base.
class BaseMount {
 public:
  // Asks the registry whether the target repository lacks the base's first layer. If so, mounts all layers of
  // the base. Ignores the tag of `target`.
  BaseMount(Registry& registry, const image::Reference& target, const FoundImage& base);
  ~BaseMount();  // waits for the threads
  BaseMount(const BaseMount&) = delete;
  BaseMount& operator=(const BaseMount&) = delete;

  // Each of these functions waits for its result, may throw Error, and may be called from any thread.
  bool base_was_missing() const { return was_missing_.get(); }
  bool has_mounted(const std::string& digest) const { return mounted_.get().contains(digest); }

 private:
  std::shared_future<bool> was_missing_;
  std::shared_future<std::set<std::string>> mounted_;
};

// `base`: the source of the lower layers. push() asks the registry to mount these layers from another
// repository of the same registry. If this is not possible, push() streams them through this machine, without
// storing them. Up to four blobs are sent at once. `mount`: the BaseMount of the same base and target, if
// there is one. Writes the tag last, so that a tag never names an image with a missing part. Throws the
// errors of Registry.
Pushed push(Registry& registry, const image::Reference& target, const image::Composed& composed,
            const std::optional<FoundImage>& base, PushProgress& progress, const BaseMount* mount = nullptr);

}  // namespace mlk::registry
