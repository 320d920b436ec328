#include "cli/registry/push.h"

#include <algorithm>
#include <exception>
#include <fcntl.h>
#include <future>
#include <mutex>
#include <semaphore>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "cli/image/open_file.h"
#include "cli/util/error.h"

namespace mlk::registry {
namespace {

constexpr std::size_t at_once = 12;  // most of them only name a layer that is to be mounted
constexpr std::uint64_t most_sent_unasked = 1 << 20;
constexpr std::ptrdiff_t uploads_at_once = 4;  // each has a part in memory

struct Blob {
  image::Descriptor descriptor;
  const image::Layer* own = nullptr;  // null: of the base, or the configuration
  bool is_configuration = false;
};

using Permits = std::counting_semaphore<uploads_at_once>;

class Permit {
 public:
  explicit Permit(Permits& from) : from_(from) { from_.acquire(); }
  ~Permit() { from_.release(); }
  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;

 private:
  Permits& from_;
};

// From an offset; for one upload.
Registry::Source file_source(const image::Layer& layer) {
  return [&layer](std::uint64_t offset, const std::function<bool(std::string_view)>& take) {
    const image::OpenFile file(layer.file, O_RDONLY);
    if (file.number() < 0 || lseek(file.number(), static_cast<off_t>(offset), SEEK_SET) < 0)
      image::fail_with(layer.file, errno);
    std::string buffer(1 << 20, '\0');
    while (true) {
      const ssize_t count = read(file.number(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) image::fail_with(layer.file, errno);
      if (count == 0 || !take({buffer.data(), static_cast<std::size_t>(count)})) return;
    }
  };
}

class Push {
 public:
  Push(Registry& registry, const image::Reference& target, const image::Composed& composed,
       const std::optional<FoundImage>& base, PushProgress& progress)
      : registry_(registry), target_(target), composed_(composed), base_(base), progress_(progress) {
    // What has to be sent first: it takes longer than to name what is there.
    for (const image::Layer& layer : composed.own) add({.descriptor = layer.blob, .own = &layer});
    add({.descriptor = composed.configuration_blob, .is_configuration = true});
    for (const image::Descriptor& layer : composed.of_base) add({.descriptor = layer});
    out_.digest = composed.digest;
  }

  // Whether the first layer of the base is missing: then others are, too, and nobody asks for them.
  bool lacks_base() const {
    return !composed_.of_base.empty() &&
           !registry_.has_blob(target_.repository, composed_.of_base.front().digest);
  }

  Pushed run(bool lacks_base) {
    lacks_base_ = lacks_base;
    progress_.blobs_left = static_cast<unsigned>(blobs_.size());
    std::vector<std::thread> threads;
    const std::size_t count = std::min(at_once, blobs_.size());
    for (std::size_t i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads) thread.join();
    if (thrown_) std::rethrow_exception(thrown_);
    const std::string& version = target_.tag.empty() ? composed_.digest : target_.tag;
    registry_.put_manifest(target_.repository, version, composed_.manifest_type, composed_.manifest);
    return out_;
  }

 private:
  // Two layers may be the same.
  void add(Blob blob) {
    const auto same = [&](const Blob& other) { return other.descriptor.digest == blob.descriptor.digest; };
    if (std::none_of(blobs_.begin(), blobs_.end(), same)) blobs_.push_back(blob);
  }

  void work() {
    while (true) {
      const Blob* blob = nullptr;
      {
        const std::lock_guard lock(mutex_);
        if (thrown_ || next_ == blobs_.size()) return;
        blob = &blobs_[next_++];
      }
      try {
        send(*blob);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!thrown_) thrown_ = std::current_exception();
      }
      --progress_.blobs_left;
    }
  }

  void send(const Blob& blob) {
    const std::string& digest = blob.descriptor.digest;
    const bool of_base = blob.own == nullptr && !blob.is_configuration;
    const auto is_there = [&] { return registry_.has_blob(target_.repository, digest); };
    const bool may_be_mounted = of_base && base_->registry->name() == registry_.name() &&
                                base_->reference.repository != target_.repository;
    // To ask for a small one takes as long as to send it.
    const bool is_small = !of_base && blob.descriptor.size <= most_sent_unasked;
    const bool asks_first = !lacks_base_ || !(may_be_mounted || is_small);
    if (asks_first && is_there()) return count(blob, out_.layers_there, 0);
    if (may_be_mounted && registry_.mount_blob(target_.repository, digest, base_->reference.repository))
      return count(blob, out_.layers_mounted, 0);
    if (may_be_mounted && !asks_first && is_there()) return count(blob, out_.layers_there, 0);
    if (blob.own != nullptr) image::check_layer(*blob.own);
    const Permit permit(uploads_);
    progress_.all += blob.descriptor.size;
    registry_.upload(target_.repository, blob.descriptor, source_of(blob),
                     [this](std::uint64_t bytes) { progress_.sent += bytes; });
    count(blob, out_.layers_sent, blob.descriptor.size);
  }

  Registry::Source source_of(const Blob& blob) const {
    if (blob.own != nullptr) return file_source(*blob.own);
    if (blob.is_configuration)
      return [this](std::uint64_t offset, const std::function<bool(std::string_view)>& take) {
        take(std::string_view(composed_.configuration).substr(offset));
      };
    return [this, &blob](std::uint64_t offset, const std::function<bool(std::string_view)>& take) {
      base_->registry->read_blob(base_->reference.repository, blob.descriptor, offset, take);
    };
  }

  void count(const Blob& blob, unsigned& layers, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (!blob.is_configuration) ++layers;
    out_.bytes_sent += bytes;
  }

  Registry& registry_;
  const image::Reference& target_;
  const image::Composed& composed_;
  const std::optional<FoundImage>& base_;
  PushProgress& progress_;
  std::vector<Blob> blobs_;
  bool lacks_base_ = false;
  Permits uploads_{uploads_at_once};
  std::mutex mutex_;
  std::size_t next_ = 0;
  std::exception_ptr thrown_;
  Pushed out_;
};

}  // namespace

Pushed push(Registry& registry, const image::Reference& target, const image::Composed& composed,
            const std::optional<FoundImage>& base, PushProgress& progress) {
  if (base && base->registry->name() == registry.name()) registry.speak_as(*base->registry);
  Push push(registry, target, composed, base, progress);
  // Two questions at once, as each costs a round trip.
  std::future<bool> lacks_base = std::async(std::launch::async, [&] { return push.lacks_base(); });
  // An image that is there is there with all of its parts.
  if (!target.tag.empty() && registry.find_digest(target.repository, target.tag) == composed.digest) {
    Pushed out{.digest = composed.digest};
    out.layers_there = static_cast<unsigned>(composed.of_base.size() + composed.own.size());
    return out;
  }
  return push.run(lacks_base.get());
}

}  // namespace mlk::registry
