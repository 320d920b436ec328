// Saving: write into a folder .tmp-*, sync, write the manifest, sync, rename, sync the parent. Loading: the
// newest folder whose manifest, sizes and checksums hold.
#include "runtime/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "runtime/crc32c.h"
#include "runtime/exit_code.h"
#include "runtime/safetensors.h"

namespace mlk::rt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* state_file = "state.safetensors";
constexpr const char* manifest_file = "manifest.json";
constexpr const char* step_prefix = "step-";
constexpr const char* temporary_prefix = ".tmp-";
constexpr const char* slot_prefix = "optimizer.";  // and the number of the slot
constexpr std::size_t most_slots = 4;
constexpr std::size_t max_manifest = 1 << 20;

[[noreturn]] void fail_system(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// A file or folder that is closed on every way out.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, mode_t mode = 0)
      : path_(path), fd_(open(path.c_str(), flags | O_CLOEXEC, mode)) {
    if (fd_ < 0) fail_system(path_.string());
  }
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write_all(const void* data, std::size_t size) {
    const char* bytes = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t n = write(fd_, bytes, size);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_system(path_.string());
      bytes += n;
      size -= static_cast<std::size_t>(n);
    }
  }

  void sync() {
    if (fsync(fd_) != 0) fail_system(path_.string());
  }

 private:
  fs::path path_;
  int fd_;
};

void sync_folder(const fs::path& path) { Descriptor(path, O_RDONLY | O_DIRECTORY).sync(); }

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// Checkpoints in the folder, the newest first. A folder that is not there yet has none.
std::vector<std::pair<std::uint64_t, fs::path>> list_checkpoints(const fs::path& folder,
                                                                 std::error_code& error) {
  std::vector<std::pair<std::uint64_t, fs::path>> found;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::uint64_t step = 0;
    if (!name.starts_with(step_prefix)) continue;
    const char* last = name.data() + name.size();
    const auto [stopped, status] = std::from_chars(name.data() + std::strlen(step_prefix), last, step);
    if (status == std::errc() && stopped == last) found.emplace_back(step, entry->path());
  }
  if (error == std::errc::no_such_file_or_directory) error.clear();
  std::ranges::sort(found, std::greater<>());
  return found;
}

fs::path checkpoint_path(const fs::path& folder, std::uint64_t step) {
  std::string digits = std::to_string(step);
  digits.insert(0, 12 - std::min<std::size_t>(12, digits.size()), '0');  // so that `ls` sorts them
  return folder / (step_prefix + digits);
}

// The tensors of the model, and after them those of each slot of the optimizer's state, as they lie in the
// file.
std::vector<SafeTensor> file_layout(std::span<const TensorInfo> tensors, std::size_t slots) {
  std::vector<SafeTensor> layout;
  std::size_t offset = 0;
  for (std::size_t part = 0; part <= slots; ++part) {
    const std::string prefix = part == 0 ? "" : slot_prefix + std::to_string(part - 1) + ".";
    for (const TensorInfo& tensor : tensors) {
      layout.push_back({prefix + tensor.name, tensor.shape, offset, tensor.size * sizeof(float)});
      offset += layout.back().size;
    }
  }
  return layout;
}

std::size_t float_count(std::span<const TensorInfo> tensors) {
  std::size_t count = 0;
  for (const TensorInfo& tensor : tensors) count += tensor.size;
  return count;
}

void write_state(const fs::path& folder, const TrainingState& state, std::span<const TensorInfo> tensors) {
  const std::string header = safetensors_header(
      file_layout(tensors, state.optimizer_state.size() / float_count(tensors)),
      {{"step", std::to_string(state.step)}, {"position", std::to_string(state.position)}});
  Descriptor file(folder / state_file, O_WRONLY | O_CREAT | O_EXCL, 0644);
  std::uint32_t crc = 0;
  std::size_t bytes = 0;
  const auto put = [&](const void* data, std::size_t size) {
    file.write_all(data, size);
    crc = crc32c(data, size, crc);
    bytes += size;
  };
  put(header.data(), header.size());
  put(state.parameters.data(), state.parameters.size() * sizeof(float));
  put(state.optimizer_state.data(), state.optimizer_state.size() * sizeof(float));
  file.sync();

  // Last: a folder without a manifest is no checkpoint.
  const json manifest = {{"schema", 1},
                         {"step", state.step},
                         {"position", state.position},
                         {"files", {{{"name", state_file}, {"bytes", bytes}, {"crc32c", crc}}}}};
  const std::string text = manifest.dump() + "\n";
  Descriptor manifest_out(folder / manifest_file, O_WRONLY | O_CREAT | O_EXCL, 0644);
  manifest_out.write_all(text.data(), text.size());
  manifest_out.sync();
}

// The whole file, if it has at most `limit` bytes.
std::string read_file(const fs::path& path, std::size_t limit) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) throw std::runtime_error(path.filename().string() + ": " + error.message());
  if (size > limit) throw std::runtime_error(path.filename().string() + " is larger than the model asks for");
  std::string text(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    throw std::runtime_error(path.filename().string() + " cannot be read");
  }
  return text;
}

// Throws std::runtime_error that says why the checkpoint cannot be used.
TrainingState load(const fs::path& folder, std::span<const TensorInfo> tensors) {
  const json manifest = json::parse(read_file(folder / manifest_file, max_manifest));
  if (manifest.at("schema") != 1) throw std::runtime_error("its manifest has a schema of a newer version");
  const json& entry = manifest.at("files").at(0);
  const std::size_t floats = float_count(tensors), data_bytes = floats * sizeof(float);
  const std::string file = read_file(folder / state_file, (1 + most_slots) * data_bytes + max_manifest);
  if (entry.at("name") != state_file || entry.at("bytes") != file.size()) {
    throw std::runtime_error("state.safetensors has " + std::to_string(file.size()) +
                             " bytes, not those of the manifest");
  }
  if (entry.at("crc32c") != crc32c(file.data(), file.size())) {
    throw std::runtime_error("state.safetensors does not match its checksum");
  }

  const SafeTensorsFile parsed = parse_safetensors(file);
  const std::size_t parts = parsed.tensors.size() / std::max<std::size_t>(tensors.size(), 1),
                    slots = std::max<std::size_t>(parts, 1) - 1;
  const std::vector<SafeTensor> expected = file_layout(tensors, slots);
  const auto same = [](const SafeTensor& a, const SafeTensor& b) {
    return a.name == b.name && a.shape == b.shape && a.offset == b.offset;
  };
  if (!std::ranges::equal(parsed.tensors, expected, same)) {
    throw std::runtime_error("its tensors are not those of the model");
  }
  TrainingState state{manifest.at("step").get<std::uint64_t>(), manifest.at("position").get<std::uint64_t>(),
                      std::vector<float>(floats), std::vector<float>(slots * floats)};
  std::memcpy(state.parameters.data(), file.data() + parsed.data_begin, data_bytes);
  if (slots > 0) {
    std::memcpy(state.optimizer_state.data(), file.data() + parsed.data_begin + data_bytes,
                slots * data_bytes);
  }
  return state;
}

}  // namespace

CheckpointStore::CheckpointStore(std::string folder, int keep, const Log& log)
    : folder_(std::move(folder)), keep_(keep), log_(log) {}

bool CheckpointStore::save(const TrainingState& state, std::span<const TensorInfo> tensors) {
  fs::path temporary;
  try {
    fs::create_directories(folder_);
    std::string name = (fs::path(folder_) / temporary_prefix).string() + "XXXXXX";
    if (!mkdtemp(name.data())) fail_system(folder_);
    temporary = name;
    // mkdtemp makes it private, but who reads a volume of checkpoints later need not be the pod's user.
    fs::permissions(temporary, fs::perms(0755));
    write_state(temporary, state, tensors);
    sync_folder(temporary);
    const fs::path target = checkpoint_path(folder_, state.step);
    // Training that went back to an older checkpoint comes by the same steps again. A folder cannot be
    // renamed over one that is not empty; the older checkpoint is there while this one is away.
    if (fs::exists(target)) fs::remove_all(target);
    fs::rename(temporary, target);
    sync_folder(folder_);
  } catch (const std::system_error& error) {
    log_.line("warning: no checkpoint of step " + std::to_string(state.step) + ": " + error.what());
    if (!temporary.empty()) remove_quietly(temporary);
    return false;
  }
  prune(state.step);
  return true;
}

// Only checkpoints up to the one just saved count and go: what is beyond it was passed over as unusable when
// this training started, and must not push out those that are good.
void CheckpointStore::prune(std::uint64_t saved_step) const {
  int kept = 0;
  std::error_code error;  // what cannot be listed cannot be removed: the next save tries again
  for (const auto& [step, path] : list_checkpoints(folder_, error)) {
    if (step <= saved_step && ++kept > keep_) remove_quietly(path);
  }
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    // Left by a process that was killed while saving: no other writes here now.
    if (entry->path().filename().string().starts_with(temporary_prefix)) remove_quietly(entry->path());
  }
}

std::optional<TrainingState> CheckpointStore::load_newest(std::span<const TensorInfo> tensors) const {
  std::string first_reason;
  std::error_code unlisted;
  const auto checkpoints = list_checkpoints(folder_, unlisted);
  if (unlisted) throw Failure(ExitCode::checkpoint_unusable, folder_ + ": " + unlisted.message());
  for (const auto& [step, path] : checkpoints) {
    try {
      return load(path, tensors);
    } catch (const std::exception& error) {
      const std::string reason = path.string() + ": " + error.what();
      if (first_reason.empty()) first_reason = reason;
      log_.line("warning: checkpoint passed over: " + reason);
    }
  }
  if (first_reason.empty()) return std::nullopt;
  throw Failure(ExitCode::checkpoint_unusable, "no checkpoint can be used: " + first_reason);
}

}  // namespace mlk::rt
