// Saving: write into a temporary folder, sync, read back, write the manifest, sync, rename, sync the parent.
// Loading: the newest folder whose manifest, sizes and checksums are right and whose tensors are those of the
// model.
#include "runtime/checkpoint/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "runtime/base/crc32c.h"
#include "runtime/base/exit_code.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/checkpoint/disk.h"
#include "runtime/checkpoint/safetensors.h"

namespace mlk::rt {
namespace {

namespace fs = std::filesystem;

constexpr const char* state_file = "state.safetensors";
constexpr const char* manifest_file = "manifest.json";
constexpr const char* step_prefix = "step-";
constexpr const char* aside_prefix = ".tmp-";
constexpr const char* mark_prefix = ".mark-";
constexpr std::size_t write_block = 1 << 20;

// Parses the number after the prefix. After the number, the text must end, or continue with `after`.
std::optional<std::uint64_t> number_in(std::string_view text, std::string_view prefix, char after = '\0') {
  if (!text.starts_with(prefix)) return {};
  text.remove_prefix(prefix.size());
  std::uint64_t number = 0;
  const char *const first = text.data(), *const last = first + text.size();
  const auto [stopped, status] = std::from_chars(first, last, number);
  if (status != std::errc() || (stopped != last && (after == '\0' || *stopped != after))) return {};
  return number;
}

// The checkpoints in the folder, the newest first. The list is empty if the folder does not exist yet.
std::vector<std::pair<std::uint64_t, fs::path>> list_checkpoints(const fs::path& folder,
                                                                 std::error_code& error) {
  std::vector<std::pair<std::uint64_t, fs::path>> found;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const auto step = number_in(entry->path().filename().string(), step_prefix);
    if (step) found.emplace_back(*step, entry->path());
  }
  if (error == std::errc::no_such_file_or_directory) error.clear();
  std::ranges::sort(found, std::greater<>());
  return found;
}

// The step, with so many digits that `ls` sorts by step.
std::string digits(std::uint64_t step) {
  std::string text = std::to_string(step);
  return text.insert(0, 12 - std::min<std::size_t>(12, text.size()), '0');
}

// A name from another process must have the form of our names, so that it cannot lead out of the folder.
bool is_ours(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && name.find('/') == std::string_view::npos;
}

// Moves the finished folder to its place. Training that went back to an older checkpoint makes the same steps
// again, and a rename cannot replace a folder that is not empty. So the new folder and the old folder
// exchange names, where the file system can do that. Elsewhere, the old folder first gets another name with
// the same step number. So it is still found if this process is killed between the two renames: it may be the
// only checkpoint.
void put_in_place(const fs::path& aside, const fs::path& target) {
  std::string name = target.filename();
  const fs::path older = target.parent_path() / name.insert(std::strlen(step_prefix), "0");
  if (!fs::exists(target)) {
    fs::rename(aside, target);
  } else if (renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    remove_quietly(aside);
  } else {
    remove_quietly(older);
    fs::rename(target, older);
    fs::rename(aside, target);
  }
  remove_quietly(older);
}

// Explains a missing permission: the owner and the mode of the folder, or of its nearest parent that exists,
// and the user and group of this process. Empty if no permission is missing.
std::string owner_of(fs::path folder) {
  struct stat info{};
  while (stat(folder.c_str(), &info) != 0 && folder.has_relative_path()) folder = folder.parent_path();
  if (access(folder.c_str(), W_OK) == 0 || errno != EACCES) return "";
  char text[160];
  std::snprintf(text, sizeof text,
                " (this process is user %u of group %u, and %s has user %u, group %u, mode %o)", geteuid(),
                getegid(), folder.filename().c_str(), info.st_uid, info.st_gid, info.st_mode & 07777u);
  return text;
}

}  // namespace

CheckpointStore::CheckpointStore(std::string folder, int keep, const Log& log)
    : folder_(std::move(folder)), keep_(keep), log_(log) {}

void CheckpointStore::warn(std::uint64_t step, const std::string& reason) const {
  log_.line(no_checkpoint_line(step, reason));
}

std::string CheckpointStore::name_aside(std::uint64_t step) {
  return aside_prefix + digits(step) + "-" + random_name();
}

WrittenFile CheckpointStore::write(const std::string& aside, const std::string& name,
                                   const Snapshot& snapshot, std::span<const TensorInfo> tensors) const {
  if (!is_ours(aside, aside_prefix)) throw std::runtime_error("not a folder aside: " + aside);
  const fs::path folder = fs::path(folder_) / aside;
  fs::create_directories(folder);
  std::map<std::string, std::string> metadata = {{"step", std::to_string(snapshot.step)},
                                                 {"position", std::to_string(snapshot.position)},
                                                 {"slots", std::to_string(snapshot.slots())}};
  const auto& [restarts, lost_samples] = snapshot.history;
  if (restarts > 0) metadata["restarts"] = std::to_string(restarts);
  if (lost_samples > 0) metadata["lost_samples"] = std::to_string(lost_samples);
  const std::string header = safetensors_header(name_pieces(snapshot.pieces, tensors), metadata);
  WrittenFile written{name, 0, 0};
  Descriptor file(folder / name, O_WRONLY | O_CREAT | O_EXCL, 0644);
  // Writes in blocks: the processor's cache still holds a block after its checksum, and the disk stores a
  // block while the next one is prepared.
  const auto put = [&](const char* data, std::size_t size) {
    for (std::size_t at = 0; at < size; at += write_block) {
      const std::size_t part = std::min(write_block, size - at);
      written.crc32c = crc32c(data + at, part, written.crc32c);
      file.write_all(data + at, part);
      file.start_sync();
    }
    written.bytes += size;
  };
  put(header.data(), header.size());
  put(reinterpret_cast<const char*>(snapshot.values.data()), snapshot.values.size() * sizeof(float));
  verify_file(folder, written);
  file.sync();
  return written;
}

void CheckpointStore::commit(const std::string& aside, const Manifest& manifest) const {
  const fs::path folder = fs::path(folder_) / aside;
  for (const WrittenFile& file : manifest.files) {
    std::error_code error;
    if (fs::file_size(folder / file.name, error) != file.bytes || error) {
      throw std::runtime_error((folder / file.name).string() + " is not as it was written");
    }
  }
  // The manifest is written last, because a folder without a manifest is not a checkpoint.
  write_text(folder / manifest_file, encode(manifest));
  sync_folder(folder);
  put_in_place(folder, fs::path(folder_) / (step_prefix + digits(manifest.step)));
  sync_folder(folder_);
  prune(manifest.step);
}

void CheckpointStore::discard(const std::string& aside) const {
  if (is_ours(aside, aside_prefix)) remove_quietly(fs::path(folder_) / aside);
}

// Writes some bytes and syncs them, because a full disk still accepts empty files.
std::string CheckpointStore::why_unwritable() const {
  const fs::path mark = fs::path(folder_) / name_mark();
  std::string reason;
  try {
    fs::create_directories(folder_);
    write_text(mark, std::string(4096, '\n'));
  } catch (const std::exception& error) {
    reason = reason_of(error) + owner_of(folder_);
  }
  remove_quietly(mark);
  return reason;
}

Failure CheckpointStore::unwritable(const std::string& why) const {
  return {ExitCode::checkpoint_unusable, "checkpoints cannot be written to " + folder_ + ": " + why};
}

bool CheckpointStore::save(const Snapshot& snapshot, std::span<const TensorInfo> tensors,
                           std::string* why) const {
  const std::string aside = name_aside(snapshot.step);
  try {
    const WrittenFile file = write(aside, state_file, snapshot, tensors);
    commit(aside, {snapshot.step, snapshot.position, {file}, snapshot.data});
    return true;
  } catch (const std::exception& error) {
    warn(snapshot.step, error.what());
    if (why) *why = reason_of(error);
    discard(aside);
    return false;
  }
}

// Counts and removes only checkpoints up to the step just saved. Later checkpoints were unusable at the start
// of this training, so they must not displace good ones.
void CheckpointStore::prune(std::uint64_t saved_step) const {
  int kept = 0;
  std::error_code error;  // if the folder cannot be listed, the next save tries again
  for (const auto& [step, path] : list_checkpoints(folder_, error)) {
    if (step <= saved_step && ++kept > keep_) remove_quietly(path);
  }
  std::vector<fs::path> left;  // left by processes that were killed while saving
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    // A folder of a later step stays, because it may belong to another rank, which has just begun to save
    // instead of this rank.
    const std::string name = entry->path().filename().string();
    if (name.starts_with(aside_prefix) && number_in(name, aside_prefix, '-').value_or(0) <= saved_step)
      left.push_back(entry->path());
  }
  for (const fs::path& path : left) {
    // A folder of this step may belong to another process, too. It is renamed before its files are removed,
    // so that a process that commits the folder finds it complete or not at all.
    const fs::path gone = path.string() + "-gone";
    fs::rename(path, gone, error);
    remove_quietly(error ? path : gone);
  }
}

std::string CheckpointStore::name_mark() { return mark_prefix + random_name(); }

bool CheckpointStore::leave_mark(const std::string& mark) const {
  try {
    fs::create_directories(folder_);
    const Descriptor created(fs::path(folder_) / mark, O_WRONLY | O_CREAT, 0644);
    return true;
  } catch (const std::system_error&) {
    return false;  // the first save will report the reason
  }
}

bool CheckpointStore::remove_mark(const std::string& mark) const {
  std::error_code ignored;
  return is_ours(mark, mark_prefix) && fs::remove(fs::path(folder_) / mark, ignored);
}

std::uint64_t CheckpointStore::newest_step() const {
  std::error_code ignored;
  const auto checkpoints = list_checkpoints(folder_, ignored);
  return checkpoints.empty() ? 0 : checkpoints.front().first;
}

bool CheckpointStore::newest_is_whole() const {
  std::error_code ignored;
  const auto checkpoints = list_checkpoints(folder_, ignored);
  if (checkpoints.empty()) return false;
  try {
    verify_checkpoint(checkpoints.front().second, checkpoints.front().first);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::optional<TrainingState> CheckpointStore::load_newest(std::span<const TensorInfo> tensors) const {
  std::string first_reason;
  std::optional<std::uint64_t> looked_at;
  while (true) {
    std::error_code unlisted;
    const auto checkpoints = list_checkpoints(folder_, unlisted);
    if (unlisted) throw Failure(ExitCode::checkpoint_unusable, folder_ + ": " + unlisted.message());
    if (checkpoints.empty()) return std::nullopt;
    // If another process saves meanwhile, it may remove a checkpoint of the list. Then the newest step has
    // changed, so this loop lists and reads again.
    if (checkpoints.front().first == looked_at) break;
    looked_at = checkpoints.front().first;
    first_reason.clear();
    for (const auto& [step, path] : checkpoints) {
      try {
        TrainingState state = read_checkpoint(path, tensors);
        if (state.step == step) return state;
        throw std::runtime_error("it is of step " + std::to_string(state.step));
      } catch (const std::exception& error) {
        const std::string reason = path.string() + ": " + error.what();
        if (first_reason.empty()) first_reason = reason;
        log_.line("warning: checkpoint passed over: " + reason);
      }
    }
  }
  throw Failure(ExitCode::checkpoint_unusable, "no checkpoint can be used: " + first_reason);
}

std::string no_checkpoint_line(std::uint64_t step, const std::string& reason) {
  return "warning: no checkpoint of step " + std::to_string(step) + ": " + reason;
}

std::string reason_of(const std::exception& error) {
  const auto* const of_system = dynamic_cast<const std::system_error*>(&error);
  return of_system ? of_system->code().message() : error.what();
}

Failure unsaved(const std::string& reason) {
  return {ExitCode::checkpoint_unusable, "trained, but the last checkpoint could not be written" +
                                             (reason.empty() ? std::string() : ": " + reason)};
}

}  // namespace mlk::rt
