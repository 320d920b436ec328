// First reads the headers of all files, which show whether the files hold this model completely. Then reads
// the floats of each file directly to their place, and computes the checksum of the file meanwhile.
#include "runtime/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/base/crc32c.h"
#include "runtime/checkpoint/safetensors.h"

namespace mlk::rt {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_manifest = 1 << 20, read_block = 1 << 20;

// A file that is read from front to back.
class Input {
 public:
  explicit Input(const fs::path& path) : name_(path.filename().string()) {
    std::error_code error;
    size_ = fs::file_size(path, error);
    if (error) throw std::runtime_error(name_ + ": " + error.message());
    stream_.open(path, std::ios::binary);
  }

  std::uint64_t size() const { return size_; }
  const std::string& name() const { return name_; }
  std::uint32_t checksum() const { return crc_; }  // of the bytes read so far

  void read(char* into, std::size_t size) {
    for (std::size_t at = 0; at < size; at += read_block) {
      const std::size_t part = std::min(read_block, size - at);
      if (!stream_.read(into + at, static_cast<std::streamsize>(part))) {
        throw std::runtime_error(name_ + " cannot be read");
      }
      crc_ = crc32c(into + at, part, crc_);
    }
  }

  std::string read_text(std::size_t size) {
    std::string text(size, '\0');
    read(text.data(), size);
    return text;
  }

 private:
  std::string name_;
  std::ifstream stream_;
  std::uint64_t size_ = 0;
  std::uint32_t crc_ = 0;
};

void require_size(const Input& input, const WrittenFile& file) {
  if (input.size() == file.bytes) return;
  throw std::runtime_error(file.name + " has " + std::to_string(input.size()) +
                           " bytes, not those of the manifest");
}

void require_checksum(const Input& input, const WrittenFile& file) {
  if (input.checksum() != file.crc32c) throw std::runtime_error(file.name + " does not match its checksum");
}

struct FileContent {
  Input input;
  // In the order of their floats in the file. open_file() leaves `input` just before the first float.
  std::vector<Piece> pieces;
  RunHistory history;
};

// Returns 0 if the file has no such number, because the writer leaves out zeros, and older checkpoints lack
// some numbers.
std::uint64_t number_of(const SafeTensorsFile& file, const char* key) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) return 0;
  const std::string& text = found->second;
  std::uint64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size())
    throw std::runtime_error(std::string("safetensors: ") + key + " is not a whole number");
  return number;
}

FileContent open_file(const fs::path& folder, const WrittenFile& file, const Manifest& manifest,
                      std::span<const TensorInfo> tensors) {
  FileContent content{Input(folder / file.name), {}, {}};
  require_size(content.input, file);
  std::string head = content.input.read_text(std::min<std::size_t>(sizeof(std::uint64_t), file.bytes));
  head += content.input.read_text(safetensors_header_size(head, file.bytes) - head.size());
  const SafeTensorsFile parsed = parse_safetensors(head, file.bytes);
  // The manifest has no checksum of its own, so the files repeat its step and position, and must agree with
  // it.
  const auto says = [&](const char* key, std::uint64_t value) {
    const auto found = parsed.metadata.find(key);
    return found != parsed.metadata.end() && found->second == std::to_string(value);
  };
  if (!says("step", manifest.step) || !says("position", manifest.position)) {
    throw std::runtime_error(file.name + " is of another moment than the manifest");
  }
  content.history = {number_of(parsed, "restarts"), number_of(parsed, "lost_samples")};
  for (const SafeTensor& tensor : parsed.tensors) content.pieces.push_back(find_piece(tensor, tensors));
  return content;
}

Manifest read_manifest(const fs::path& folder) {
  Input file(folder / "manifest.json");
  if (file.size() > max_manifest) throw std::runtime_error("manifest.json is too large");
  return decode_manifest(file.read_text(file.size()));
}

}  // namespace

TrainingState read_checkpoint(const fs::path& folder, std::span<const TensorInfo> tensors) {
  const Manifest manifest = read_manifest(folder);
  std::vector<FileContent> files;
  std::vector<Piece> pieces;
  for (const WrittenFile& file : manifest.files) {
    files.push_back(open_file(folder, file, manifest, tensors));
    pieces.insert(pieces.end(), files.back().pieces.begin(), files.back().pieces.end());
  }
  const std::size_t parameters = parameter_count(tensors);
  const std::size_t slots = require_whole(std::move(pieces), parameters);
  TrainingState state{manifest.step, manifest.position, kernels::Floats(parameters),
                      kernels::Floats(slots * parameters), slots == 0 ? manifest.step : 0};
  state.data = manifest.data;
  for (std::size_t i = 0; i < files.size(); ++i) {
    state.history.restarts = std::max(state.history.restarts, files[i].history.restarts);
    state.history.lost_samples = std::max(state.history.lost_samples, files[i].history.lost_samples);
    for (const Piece& piece : files[i].pieces) {
      float* into = piece.part == 0
                        ? state.parameters.data() + piece.offset
                        : state.optimizer_state.data() + (piece.part - 1) * parameters + piece.offset;
      files[i].input.read(reinterpret_cast<char*>(into), piece.size * sizeof(float));
    }
    require_checksum(files[i].input, manifest.files[i]);
  }
  return state;
}

void verify_checkpoint(const fs::path& folder, std::uint64_t step) {
  const Manifest manifest = read_manifest(folder);
  if (manifest.step != step) throw std::runtime_error("it is of step " + std::to_string(manifest.step));
  for (const WrittenFile& file : manifest.files) verify_file(folder, file);
}

void verify_file(const fs::path& folder, const WrittenFile& file) {
  Input input(folder / file.name);
  require_size(input, file);
  std::vector<char> buffer(std::min<std::uint64_t>(read_block, file.bytes));
  for (std::uint64_t left = file.bytes; left > 0; left -= std::min<std::uint64_t>(left, read_block)) {
    input.read(buffer.data(), std::min<std::uint64_t>(left, buffer.size()));
  }
  require_checksum(input, file);
}

}  // namespace mlk::rt
