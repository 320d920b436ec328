// The objects of the embedded cluster: in memory, on disk, and as a history for watches.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/local/state/status.h"

namespace mlk::local {

using Object = std::shared_ptr<const json>;

struct Change {
  enum class Type { added, modified, deleted };
  std::uint64_t revision;
  Type type;
  std::string plural;
  Object object;
  Object before;  // null if the object was added
};

// Thread-safe. A change is on disk before any reader sees it; a crash at any moment leaves each object either
// as before or as after a change. Objects without a namespace have the namespace "".
class Store {
 public:
  // Reads the objects that an earlier store left in `folder`. Renames files that are not objects to
  // NAME.broken.
  explicit Store(std::filesystem::path folder);

  std::uint64_t revision() const;

  Object find(const std::string& plural, const std::string& name_space,
              const std::string& name) const;  // null if there is none
  Object get(const std::string& plural, const std::string& name_space,
             const std::string& name) const;  // throws StatusError 404 if there is none
  // In the order of namespace and name. An empty namespace means all namespaces.
  std::vector<Object> list(const std::string& plural, const std::string& name_space = "") const;
  struct Snapshot {
    std::vector<Object> objects;
    std::uint64_t revision;
  };
  Snapshot snapshot(const std::string& plural, const std::string& name_space) const;
  // The list as it was at that version. Throws StatusError 410 if the history does not have that version any
  // more.
  Snapshot snapshot_at(const std::string& plural, const std::string& name_space,
                       std::uint64_t revision) const;

  // Sets metadata.resourceVersion. Throws StatusError 409 if the object exists, 413 if it has over 1.5 MiB.
  Object create(const std::string& plural, json object);
  // Replaces the object by the result of `change`, under the lock. If the result is equal to the object,
  // nothing changes. Removes an object that is being deleted and has no finalizer left; a pod only if its
  // grace period is 0, too. `change` may throw, and must not use the store.
  Object modify(const std::string& plural, const std::string& name_space, const std::string& name,
                const std::function<void(json&)>& change);
  // Changes `object` in the same way. Changes nothing if another object has its name by now.
  Object modify(const std::string& plural, const json& object, const std::function<void(json&)>& change);
  // False if the object does not exist. `check` may throw to keep the object.
  bool remove(const std::string& plural, const std::string& name_space, const std::string& name,
              const std::function<void(const json&)>& check = nullptr);

  // Waits for a change after `revision`, at most until `deadline`. Empty if there was no change. An empty
  // plural means all kinds. Throws StatusError 410 if the history does not reach back that far. Sets
  // `revision` to the last version that was read.
  std::vector<Change> changes_after(std::uint64_t& revision, const std::string& plural,
                                    std::chrono::steady_clock::time_point deadline) const;
  void wake_watches();  // makes changes_after() return early, once

  // Called after each change, under the lock: it must be quick and must not use the store.
  void on_change(std::function<void()> callback);

 private:
  struct Key {
    std::string plural, name_space, name;
    auto operator<=>(const Key&) const = default;
  };
  static Key key_of(const std::string& plural, const json& object);
  std::filesystem::path file_of(const Key& key) const;
  void load_file(const std::filesystem::path& file);
  std::uint64_t next_revision();
  Object put(const Key& key, json object, Object before);
  // The watches get the object `last` with a new version. `before` is passed by value, since erase() removes
  // the entry that may hold the object.
  void erase(const Key& key, const Object& last, Object before);
  void record(Change change, std::size_t bytes);
  Snapshot snapshot_locked(const std::string& plural, const std::string& name_space) const;

  const std::filesystem::path folder_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<Key, Object> objects_;
  std::uint64_t revision_ = 0;
  std::uint64_t reserved_ = 0;  // no later store uses the revisions up to this one, even after a crash
  std::uint64_t oldest_ = 0;    // history_ has all changes after this one
  std::deque<std::pair<Change, std::size_t>> history_;
  std::size_t history_bytes_ = 0;
  std::uint64_t wakeups_ = 0;
  std::function<void()> on_change_;
};

}  // namespace mlk::local
