#include "cli/local/state/store.h"

#include <algorithm>
#include <charconv>
#include <iostream>

#include "cli/local/state/metadata.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"

namespace mlk::local {
namespace {

constexpr std::size_t object_limit = 3 * 512 * 1024;
constexpr std::size_t history_limit = 8192;
constexpr std::size_t history_byte_limit = 64 << 20;
constexpr std::uint64_t revision_block = 10000;

bool is_gone(const json& object) {
  const json& metadata = object.at("metadata");
  if (!metadata.contains("deletionTimestamp")) return false;
  if (metadata.contains("finalizers") && !metadata.at("finalizers").empty()) return false;
  // A pod with a grace period is removed only when its process has ended. The kubelet then sets the grace
  // period to 0.
  return metadata.value("deletionGracePeriodSeconds", 0) == 0;
}

// The number at the beginning of the text. 0 if there is none: the store then derives its version from the
// objects.
std::uint64_t number_in(const std::string& text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

Store::Store(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_);
  const std::filesystem::path revision_file = folder_ / "revision";
  if (std::filesystem::exists(revision_file)) revision_ = number_in(read_file(revision_file, 64));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
    if (entry.is_regular_file() && entry.path().extension() == ".json") load_file(entry.path());
  }
  reserved_ = revision_;
  // The history does not cover the time before this start. So a client with an older watch has to list again.
  oldest_ = next_revision();
}

void Store::load_file(const std::filesystem::path& file) {
  try {
    json object = parse_json(read_file(file, 4 * object_limit), file.string());
    const Key key = key_of(file.lexically_relative(folder_).begin()->string(), object);
    const std::string version = object.at("metadata").at("resourceVersion").get<std::string>();
    revision_ = std::max<std::uint64_t>(revision_, std::stoull(version));
    objects_[key] = std::make_shared<const json>(std::move(object));
  } catch (const std::exception& error) {
    std::cerr << "set aside " << file.string() << ": " << error.what() << "\n";
    std::filesystem::rename(file, file.string() + ".broken");
  }
}

Store::Key Store::key_of(const std::string& plural, const json& object) {
  const json& metadata = object.at("metadata");
  return {plural, metadata.value("namespace", ""), metadata.at("name").get<std::string>()};
}

std::filesystem::path Store::file_of(const Key& key) const {
  // A file name has at most 255 bytes, so long names are cut. No object's name contains a ~.
  const std::string file =
      key.name.size() <= 200 ? key.name : key.name.substr(0, 150) + "~" + sha256_hex(key.name).substr(0, 32);
  return folder_ / key.plural / (key.name_space.empty() ? "~" : key.name_space) / (file + ".json");
}

std::uint64_t Store::next_revision() {
  if (revision_ >= reserved_) {
    reserved_ = revision_ + revision_block;
    write_file_atomically(folder_ / "revision", std::to_string(reserved_), 0600);
  }
  return ++revision_;
}

std::uint64_t Store::revision() const {
  const std::lock_guard lock(mutex_);
  return revision_;
}

Object Store::find(const std::string& plural, const std::string& name_space, const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(Key{plural, name_space, name});
  return found == objects_.end() ? nullptr : found->second;
}

Object Store::get(const std::string& plural, const std::string& name_space, const std::string& name) const {
  Object object = find(plural, name_space, name);
  if (!object) throw not_found(plural, name);
  return object;
}

std::vector<Object> Store::list(const std::string& plural, const std::string& name_space) const {
  return snapshot(plural, name_space).objects;
}

Store::Snapshot Store::snapshot(const std::string& plural, const std::string& name_space) const {
  const std::lock_guard lock(mutex_);
  return snapshot_locked(plural, name_space);
}

Store::Snapshot Store::snapshot_locked(const std::string& plural, const std::string& name_space) const {
  Snapshot result{{}, revision_};
  for (auto at = objects_.lower_bound(Key{plural, name_space, ""}); at != objects_.end(); ++at) {
    if (at->first.plural != plural || (!name_space.empty() && at->first.name_space != name_space)) break;
    result.objects.push_back(at->second);
  }
  return result;
}

Store::Snapshot Store::snapshot_at(const std::string& plural, const std::string& name_space,
                                   std::uint64_t revision) const {
  const std::lock_guard lock(mutex_);
  if (revision < oldest_) throw expired("The provided continue parameter is too old");
  std::map<Key, Object> then;
  for (const Object& object : snapshot_locked(plural, name_space).objects)
    then[key_of(plural, *object)] = object;
  // Undoes the later changes, newest first.
  for (auto at = history_.rbegin(); at != history_.rend() && at->first.revision > revision; ++at) {
    const Change& change = at->first;
    const Key key = key_of(change.plural, *change.object);
    if (change.plural != plural || (!name_space.empty() && key.name_space != name_space)) continue;
    then[key] = change.before;
    if (!change.before) then.erase(key);
  }
  Snapshot result{{}, revision};
  for (auto& [key, object] : then) result.objects.push_back(std::move(object));
  return result;
}

Object Store::create(const std::string& plural, json object) {
  const std::lock_guard lock(mutex_);
  const Key key = key_of(plural, object);
  if (objects_.contains(key)) throw already_exists(plural, key.name);
  return put(key, std::move(object), nullptr);
}

Object Store::modify(const std::string& plural, const std::string& name_space, const std::string& name,
                     const std::function<void(json&)>& change) {
  const std::lock_guard lock(mutex_);
  const Key key{plural, name_space, name};
  const auto found = objects_.find(key);
  if (found == objects_.end()) throw not_found(plural, name);
  const Object before = found->second;
  json after = *before;
  change(after);
  after["metadata"]["resourceVersion"] = before->at("metadata").at("resourceVersion");
  if (is_gone(after)) {
    auto last = std::make_shared<const json>(std::move(after));
    erase(key, last, before);
    return last;
  }
  if (after == *before) return before;
  return put(key, std::move(after), before);
}

Object Store::modify(const std::string& plural, const json& object,
                     const std::function<void(json&)>& change) {
  return modify(plural, namespace_of(object), name_of(object), [&](json& current) {
    if (text_of(current, {"metadata", "uid"}) == text_of(object, {"metadata", "uid"})) change(current);
  });
}

bool Store::remove(const std::string& plural, const std::string& name_space, const std::string& name,
                   const std::function<void(const json&)>& check) {
  const std::lock_guard lock(mutex_);
  const Key key{plural, name_space, name};
  const auto found = objects_.find(key);
  if (found == objects_.end()) return false;
  if (check) check(*found->second);
  erase(key, found->second, found->second);
  return true;
}

Object Store::put(const Key& key, json object, Object before) {
  const std::uint64_t revision = next_revision();
  object["metadata"]["resourceVersion"] = std::to_string(revision);
  const std::string text = object.dump();
  if (text.size() > object_limit) {
    throw StatusError(413, "RequestEntityTooLarge",
                      key.plural + " \"" + key.name + "\" is too large: at most " +
                          std::to_string(object_limit) + " bytes");
  }
  const std::filesystem::path file = file_of(key);
  std::filesystem::create_directories(file.parent_path());
  write_file_atomically(file, text, 0600);
  auto stored = std::make_shared<const json>(std::move(object));
  objects_[key] = stored;
  const auto type = before ? Change::Type::modified : Change::Type::added;
  record({revision, type, key.plural, stored, std::move(before)}, text.size());
  return stored;
}

void Store::erase(const Key& key, const Object& last, Object before) {
  const std::uint64_t revision = next_revision();
  std::filesystem::remove(file_of(key));
  json gone = *last;  // before the next line, since `last` may be the pointer in objects_
  objects_.erase(key);
  gone["metadata"]["resourceVersion"] = std::to_string(revision);
  const std::size_t bytes = gone.dump().size();
  record({revision, Change::Type::deleted, key.plural, std::make_shared<const json>(std::move(gone)),
          std::move(before)},
         bytes);
}

void Store::record(Change change, std::size_t bytes) {
  history_.emplace_back(std::move(change), bytes);
  history_bytes_ += bytes;
  while (history_.size() > history_limit || (history_bytes_ > history_byte_limit && history_.size() > 1)) {
    oldest_ = history_.front().first.revision;
    history_bytes_ -= history_.front().second;
    history_.pop_front();
  }
  changed_.notify_all();
  if (on_change_) on_change_();
}

std::vector<Change> Store::changes_after(std::uint64_t& revision, const std::string& plural,
                                         std::chrono::steady_clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  const std::uint64_t wakeups = wakeups_;
  while (true) {
    if (revision < oldest_) {
      throw expired("too old resource version: " + std::to_string(revision) + " (" + std::to_string(oldest_) +
                    ")");
    }
    std::vector<Change> result;
    const auto first = std::partition_point(history_.begin(), history_.end(), [&](const auto& entry) {
      return entry.first.revision <= revision;
    });
    for (auto at = first; at != history_.end(); ++at) {
      if (plural.empty() || at->first.plural == plural) result.push_back(at->first);
    }
    revision = std::max(revision, revision_);
    if (!result.empty() || wakeups != wakeups_) return result;
    if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) return {};
  }
}

void Store::wake_watches() {
  const std::lock_guard lock(mutex_);
  ++wakeups_;
  changed_.notify_all();
}

void Store::on_change(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  on_change_ = std::move(callback);
}

}  // namespace mlk::local
