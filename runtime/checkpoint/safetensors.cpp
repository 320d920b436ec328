// Writes and reads headers of safetensors files. Does not trust what it reads.
#include "runtime/checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "runtime/base/json.h"

namespace mlk::rt {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

void demand(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("safetensors: " + what);
}

// Returns 0 if the format has no such type.
std::uint64_t bytes_of_number(const std::string& type) {
  constexpr std::pair<std::string_view, std::uint64_t> types[] = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8}};
  const auto found = std::ranges::find(types, type, [](const auto& known) { return known.first; });
  return found == std::end(types) ? 0 : found->second;
}

// The size in bytes of a tensor of this shape.
std::uint64_t bytes_of(std::uint64_t bytes, const std::vector<std::int64_t>& shape, const std::string& name) {
  for (std::int64_t n : shape) {
    const auto size = static_cast<std::uint64_t>(n);
    demand(size == 0 || bytes <= std::numeric_limits<std::uint64_t>::max() / size, name + " is too large");
    bytes *= size;
  }
  return bytes;
}

SafeTensor parse_tensor(const std::string& name, const json& value, std::uint64_t data_size) {
  const std::string type = value.at("dtype");
  demand(bytes_of_number(type) > 0, name + " has an unknown type");
  const json& shape = value.at("shape");
  demand(shape.is_array() && std::ranges::all_of(shape, [](const json& n) { return n.is_number_unsigned(); }),
         name + " has no shape");
  SafeTensor tensor{name, shape.get<std::vector<std::int64_t>>(), 0, 0, type};
  const json& offsets = value.at("data_offsets");
  demand(offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() &&
             offsets[1].is_number_unsigned(),
         name + " has no data_offsets");
  const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
  demand(begin <= end && end <= data_size, name + " lies outside of the file");
  demand(end - begin == bytes_of(bytes_of_number(type), tensor.shape, name),
         name + " does not fill its shape");
  tensor.offset = begin;
  tensor.size = end - begin;
  return tensor;
}

}  // namespace

std::string safetensors_header(std::span<const SafeTensor> tensors,
                               const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const SafeTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.type},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.offset, tensor.offset + tensor.size}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string result(sizeof length, '\0');
  std::memcpy(result.data(), &length, sizeof length);
  return result + text;
}

std::uint64_t safetensors_header_size(std::string_view first_bytes, std::uint64_t file_size) {
  std::uint64_t length = 0;
  demand(first_bytes.size() >= sizeof length && file_size >= sizeof length, "no header");
  std::memcpy(&length, first_bytes.data(), sizeof length);
  demand(length <= file_size - sizeof length, "the header is longer than the file");
  demand(length <= most_json_bytes, "the header is longer than 16 MiB");
  return sizeof length + length;
}

SafeTensorsFile parse_safetensors(std::string_view head, std::uint64_t file_size) {
  SafeTensorsFile result;
  result.data_begin = safetensors_header_size(head, file_size);
  demand(head.size() >= result.data_begin, "the header is cut off");
  const std::uint64_t data_size = file_size - result.data_begin;
  try {
    const json header = parse_json(
        head.substr(sizeof(std::uint64_t), result.data_begin - sizeof(std::uint64_t)), "safetensors");
    demand(header.is_object(), "the header is not an object");
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        result.metadata = value.get<std::map<std::string, std::string>>();
      } else {
        result.tensors.push_back(parse_tensor(name, value, data_size));
      }
    }
  } catch (const json::exception& error) {
    throw std::runtime_error(std::string("safetensors: ") + error.what());
  }
  std::ranges::sort(result.tensors, {}, [](const SafeTensor& t) { return std::pair(t.offset, t.size); });
  std::size_t end = 0;
  for (const SafeTensor& tensor : result.tensors) {
    demand(tensor.offset == end, tensor.name + " leaves a hole or overlaps");
    end += tensor.size;
  }
  demand(end == data_size, "bytes after the last tensor");
  return result;
}

}  // namespace mlk::rt
