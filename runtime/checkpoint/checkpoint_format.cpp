// Converts pieces of a model's state to named tensors and back.
#include "runtime/checkpoint/checkpoint_format.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <stdexcept>

#include "runtime/base/json.h"

namespace mlk::rt {
namespace {

using nlohmann::json;

constexpr int schema = 1;
constexpr std::string_view slot_prefix = "optimizer.";
constexpr std::size_t most_slots = 8, most_files = 4096;

std::string prefix_of(std::size_t part) {
  return part == 0 ? "" : std::string(slot_prefix) + std::to_string(part - 1) + ".";
}

[[noreturn]] void fail_unknown(const SafeTensor& tensor) {
  throw std::runtime_error("its tensors are not those of the model: " + tensor.name);
}

// Removes a number, and the character after it, from the front of the text.
std::optional<std::size_t> consume_number(std::string_view& text, char after) {
  std::size_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end == text.data() + text.size() || *end != after) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return value;
}

// Removes the prefix of a slot of the optimizer from the front of the name, if there is one, and returns the
// part (see Piece) to which the name belongs. Returns nothing if the prefix is malformed.
std::optional<std::size_t> consume_part(std::string_view& name) {
  if (!name.starts_with(slot_prefix)) return 0;
  name.remove_prefix(slot_prefix.size());
  const auto slot = consume_number(name, '.');
  return slot && *slot < most_slots ? std::optional(*slot + 1) : std::nullopt;
}

// Parses "[begin:end]"; the range must lie within a tensor of `size` floats.
std::optional<std::pair<std::size_t, std::size_t>> parse_range(std::string_view text, std::size_t size) {
  if (!text.starts_with('[')) return {};
  text.remove_prefix(1);
  const auto begin = consume_number(text, ':'), end = consume_number(text, ']');
  if (!begin || !end || !text.empty() || *begin >= *end || *end > size) return {};
  return std::pair(*begin, *end);
}

// Checks the number before the conversion, because JSON may hold a number that does not fit the type.
std::uint64_t whole_number(const json& object, const char* key,
                           std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
  const json& value = object.at(key);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
    throw std::runtime_error(std::string("manifest.json: ") + key + " is not a whole number");
  return value.get<std::uint64_t>();
}

DataSummary::Part part_of(const json& data, const char* name) {
  const json& part = data.at(name);
  return {whole_number(part, "samples"),
          static_cast<std::uint32_t>(whole_number(part, "crc32c", ~std::uint32_t{0}))};
}

}  // namespace

void Snapshot::restart(std::uint64_t at_step, std::uint64_t at_position, std::size_t floats) {
  step = at_step;
  position = at_position;
  pieces.clear();
  values.clear();
  values.reserve(floats);
  history = {};
}

void Snapshot::add(std::size_t part, std::size_t offset, std::span<const float> floats) {
  if (!pieces.empty() && pieces.back().part == part && pieces.back().offset + pieces.back().size == offset) {
    pieces.back().size += floats.size();
  } else {
    pieces.push_back({part, offset, floats.size()});
  }
  values.insert(values.end(), floats.begin(), floats.end());
}

std::size_t Snapshot::slots() const {
  return pieces.empty() ? 0 : std::ranges::max(pieces, {}, &Piece::part).part;
}

std::size_t parameter_count(std::span<const TensorInfo> tensors) {
  std::size_t count = 0;
  for (const TensorInfo& tensor : tensors) count += tensor.size;
  return count;
}

std::vector<SafeTensor> name_pieces(std::span<const Piece> pieces, std::span<const TensorInfo> tensors) {
  std::vector<SafeTensor> named;
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) {
    for (const TensorInfo& tensor : tensors) {
      const std::size_t begin = std::max(piece.offset, tensor.offset),
                        end = std::min(piece.offset + piece.size, tensor.offset + tensor.size);
      if (begin >= end) continue;
      SafeTensor part{prefix_of(piece.part) + tensor.name, tensor.shape, bytes,
                      (end - begin) * sizeof(float)};
      if (end - begin < tensor.size) {
        part.name +=
            "[" + std::to_string(begin - tensor.offset) + ":" + std::to_string(end - tensor.offset) + "]";
        part.shape = {static_cast<std::int64_t>(end - begin)};
      }
      bytes += part.size;
      named.push_back(std::move(part));
    }
  }
  return named;
}

Piece find_piece(const SafeTensor& tensor, std::span<const TensorInfo> tensors) {
  if (tensor.type != "F32") throw std::runtime_error("safetensors: " + tensor.name + " is not F32");
  std::string_view name = tensor.name;
  const auto part = consume_part(name);
  if (!part) fail_unknown(tensor);
  for (const TensorInfo& candidate : tensors) {
    if (!name.starts_with(candidate.name)) continue;
    if (name.size() == candidate.name.size() && tensor.shape == candidate.shape) {
      return {*part, candidate.offset, candidate.size};
    }
    const auto range = parse_range(name.substr(candidate.name.size()), candidate.size);
    if (!range) continue;
    const auto [begin, end] = *range;
    if (tensor.shape == std::vector<std::int64_t>{static_cast<std::int64_t>(end - begin)}) {
      return {*part, candidate.offset + begin, end - begin};
    }
  }
  fail_unknown(tensor);
}

std::size_t require_whole(std::vector<Piece> pieces, std::size_t parameters) {
  std::ranges::sort(pieces);
  std::size_t part = 0, reached = 0;
  for (const Piece& piece : pieces) {
    if (reached == parameters) {
      ++part;
      reached = 0;
    }
    if (piece.part != part || piece.offset != reached) {
      throw std::runtime_error("its files leave out some of the model or hold it twice");
    }
    reached += piece.size;
  }
  if (reached != parameters) throw std::runtime_error("its files do not hold the whole model");
  return part;
}

std::string encode(const Manifest& manifest) {
  json files = json::array();
  for (const WrittenFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"crc32c", file.crc32c}});
  }
  json out = {{"schema", schema},
              {"step", manifest.step},
              {"position", manifest.position},
              {"files", std::move(files)}};
  if (manifest.data) {
    const auto part = [](const DataSummary::Part& of) {
      return json{{"samples", of.samples}, {"crc32c", of.crc32c}};
    };
    out["data"] = {{"train", part(manifest.data->train)}, {"held_out", part(manifest.data->held_out)}};
  }
  return out.dump() + "\n";
}

Manifest decode_manifest(std::string_view text) {
  try {
    const json value = parse_json(text, "manifest.json");
    const json& version = value.at("schema");
    if (version != schema) {
      throw std::runtime_error("its manifest has schema " + version.dump() +
                               ", of another version of mlk-runtime");
    }
    Manifest manifest{whole_number(value, "step"), whole_number(value, "position"), {}};
    if (value.at("files").size() > most_files) throw std::runtime_error("its manifest names too many files");
    for (const json& file : value.at("files")) {
      const auto crc32c = static_cast<std::uint32_t>(whole_number(file, "crc32c", ~std::uint32_t{0}));
      manifest.files.push_back({file.at("name"), whole_number(file, "bytes"), crc32c});
      const std::string& name = manifest.files.back().name;
      if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
        throw std::runtime_error("its manifest names a file elsewhere: " + name);
      }
    }
    if (value.contains("data"))
      manifest.data = {part_of(value["data"], "train"), part_of(value["data"], "held_out")};
    return manifest;
  } catch (const json::exception& error) {
    throw std::runtime_error(std::string("manifest.json: ") + error.what());
  }
}

}  // namespace mlk::rt
