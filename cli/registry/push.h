// Sends an image to a registry: what is there is not sent again, and the manifest comes last.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <set>
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

// What can be done for the layers of a base before the image above it is there: those that lie in another
// repository of the registry are mounted, in threads of their own.
class BaseMount {
 public:
  // Asks whether the repository lacks the first layer, and if so begins. `target`: its tag does not count.
  BaseMount(Registry& registry, const image::Reference& target, const FoundImage& base);
  ~BaseMount();  // waits for the end
  BaseMount(const BaseMount&) = delete;
  BaseMount& operator=(const BaseMount&) = delete;

  // These wait for what they tell, throw Error, and are safe from several threads.
  bool base_was_missing() const { return was_missing_.get(); }
  bool has_mounted(const std::string& digest) const { return mounted_.get().contains(digest); }

 private:
  std::shared_future<bool> was_missing_;
  std::shared_future<std::set<std::string>> mounted_;
};

// `base`: where the lower layers come from; they are mounted within a registry, else streamed through, and
// never stored here. Up to four blobs go at once. `mount`: of the same base and target, if one was begun.
// Throws Error; a tag never names an image of which a part is missing.
Pushed push(Registry& registry, const image::Reference& target, const image::Composed& composed,
            const std::optional<FoundImage>& base, PushProgress& progress, const BaseMount* mount = nullptr);

}  // namespace mlk::registry
