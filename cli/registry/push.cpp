#include "cli/registry/push.h"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <mutex>
#include <semaphore>
#include <unistd.h>
#include <vector>

#include "cli/image/open_file.h"
#include "cli/util/thread_pool.h"

namespace mlk::registry {
namespace {

constexpr std::size_t at_once = 12;  // requests; most of them only mount a layer
constexpr std::uint64_t most_sent_unasked = 1 << 20;
constexpr std::ptrdiff_t uploads_at_once = 4;  // each upload holds a part of its blob in memory

struct Blob {
  image::Descriptor descriptor;
  const image::Layer* own = nullptr;  // null: a layer of the base, or the configuration
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

Registry::Source file_source(const image::Layer& layer) {
  return [&layer](const std::function<bool(std::string_view)>& take) {
    const image::OpenFile file(layer.file, O_RDONLY);
    if (file.number() < 0) image::fail_with(layer.file, errno);
    constexpr std::uint64_t most_at_once = 1 << 20;
    std::string buffer(std::min(layer.blob.size + 1, most_at_once), '\0');
    while (true) {
      const ssize_t count = read(file.number(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) image::fail_with(layer.file, errno);
      if (count == 0 || !take({buffer.data(), static_cast<std::size_t>(count)})) return;
    }
  };
}

// Calls `act` for each item, in several threads. The calls begin in the order of the items. While requests
// are fast, the pool starts only a few threads, so that mlk needs only a few connections.
template <typename Item>
void for_each_at_once(const std::vector<Item>& items, const std::function<void(const Item&)>& act) {
  ThreadPool pool({.most = at_once, .pace = std::chrono::milliseconds(3), .first = 3});
  for (auto item = items.rbegin(); item != items.rend(); ++item) pool.add([&act, item] { act(*item); });
  pool.work();
}

bool may_be_mounted(const Registry& registry, const image::Reference& target, const FoundImage& base) {
  return base.registry->name() == registry.name() && base.reference.repository != target.repository;
}

class Push {
 public:
  Push(Registry& registry, const image::Reference& target, const image::Composed& composed,
       const std::optional<FoundImage>& base, PushProgress& progress)
      : registry_(registry), target_(target), composed_(composed), base_(base), progress_(progress) {
    // The layers of the base come last, because the registry often has them already, and the blobs that mlk
    // has to send need more time.
    for (const image::Layer& layer : composed.own) add({.descriptor = layer.blob, .own = &layer});
    add({.descriptor = composed.configuration_blob, .is_configuration = true});
    for (const image::Descriptor& layer : composed.of_base) add({.descriptor = layer});
    out_.digest = composed.digest;
  }

  // `mount`: null if there is no BaseMount.
  Pushed run(bool base_was_missing, const BaseMount* mount) {
    base_was_missing_ = base_was_missing;
    mount_ = mount;
    progress_.blobs_left = static_cast<unsigned>(blobs_.size());
    for_each_at_once<Blob>(blobs_, [this](const Blob& blob) {
      send(blob);
      --progress_.blobs_left;
    });
    const std::string& version = target_.tag.empty() ? composed_.digest : target_.tag;
    registry_.put_manifest(target_.repository, version, composed_.manifest_type, composed_.manifest);
    return out_;
  }

 private:
  // Adds a blob if the list does not have it yet, because two layers may be the same.
  void add(Blob blob) {
    const auto same = [&](const Blob& other) { return other.descriptor.digest == blob.descriptor.digest; };
    if (std::none_of(blobs_.begin(), blobs_.end(), same)) blobs_.push_back(blob);
  }

  void send(const Blob& blob) {
    const std::string& digest = blob.descriptor.digest;
    const bool of_base = blob.own == nullptr && !blob.is_configuration;
    const auto is_there = [&] { return registry_.has_blob(target_.repository, digest); };
    if (of_base && mount_ != nullptr && mount_->has_mounted(digest))
      return count(blob, out_.layers_mounted, 0);
    const bool is_mountable = of_base && may_be_mounted(registry_, target_, *base_);
    // Asking whether a small blob exists takes as long as sending it. So if the repository lacks the base,
    // mlk sends small blobs of its own without asking.
    const bool is_small = !of_base && blob.descriptor.size <= most_sent_unasked;
    const bool asks_first = !base_was_missing_ || !(is_mountable || is_small);
    if (asks_first && is_there()) return count(blob, out_.layers_there, 0);
    const bool was_tried = mount_ != nullptr && base_was_missing_;
    if (is_mountable && !was_tried &&
        registry_.mount_blob(target_.repository, digest, base_->reference.repository))
      return count(blob, out_.layers_mounted, 0);
    if (is_mountable && !asks_first && is_there()) return count(blob, out_.layers_there, 0);
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
      return [this](const std::function<bool(std::string_view)>& take) { take(composed_.configuration); };
    return [this, &blob](const std::function<bool(std::string_view)>& take) {
      base_->registry->read_blob(base_->reference.repository, blob.descriptor, take);
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
  bool base_was_missing_ = false;
  const BaseMount* mount_ = nullptr;
  Permits uploads_{uploads_at_once};
  std::mutex mutex_;
  Pushed out_;
};

// Whether the repository lacks the base's layers. Asks only for the first layer: a repository that has the
// first layer most likely has the other layers too.
bool lacks_base(Registry& registry, const image::Reference& target, const FoundImage& base) {
  const std::vector<image::Descriptor>& layers = base.image.manifest.layers;
  return !layers.empty() && !registry.has_blob(target.repository, layers.front().digest);
}

}  // namespace

BaseMount::BaseMount(Registry& registry, const image::Reference& target, const FoundImage& base) {
  if (base.registry->name() == registry.name()) registry.speak_as(*base.registry);
  was_missing_ = std::async(std::launch::async, [&registry, target, base] {
                   return lacks_base(registry, target, base);
                 }).share();
  const auto mount = [&registry, target, base, was_missing = was_missing_] {
    std::set<std::string> out;
    if (!was_missing.get() || !may_be_mounted(registry, target, base)) return out;
    std::set<std::string> digests;
    for (const image::Descriptor& layer : base.image.manifest.layers) digests.insert(layer.digest);
    std::mutex mutex;
    for_each_at_once<std::string>({digests.begin(), digests.end()}, [&](const std::string& digest) {
      if (!registry.mount_blob(target.repository, digest, base.reference.repository)) return;
      const std::lock_guard lock(mutex);
      out.insert(digest);
    });
    return out;
  };
  mounted_ = std::async(std::launch::async, mount).share();
}

BaseMount::~BaseMount() { mounted_.wait(); }

Pushed push(Registry& registry, const image::Reference& target, const image::Composed& composed,
            const std::optional<FoundImage>& base, PushProgress& progress, const BaseMount* mount) {
  if (base && base->registry->name() == registry.name()) registry.speak_as(*base->registry);
  Push push(registry, target, composed, base, progress);
  std::future<bool> lacks;  // two requests in parallel, since each costs a round trip
  if (mount == nullptr)
    lacks = std::async(std::launch::async, [&] { return base && lacks_base(registry, target, *base); });
  const bool is_new = mount != nullptr && mount->base_was_missing();
  // A registry that has the image also has all parts of the image, so mlk sends nothing.
  if (!target.tag.empty() && !is_new &&
      registry.find_digest(target.repository, target.tag) == composed.digest) {
    Pushed out{.digest = composed.digest};
    out.layers_there = static_cast<unsigned>(composed.of_base.size() + composed.own.size());
    return out;
  }
  return push.run(mount != nullptr ? is_new : lacks.get(), mount);
}

}  // namespace mlk::registry
