// The safetensors format: u64 length of the header, header in JSON, then the tensors' bytes, all
// little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mlk::rt {

// One float32 tensor of a file. Offset and size count bytes from the end of the header.
struct SafeTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t offset = 0, size = 0;
};

// The bytes before the data (length, JSON, spaces up to a multiple of 8) of a file that holds `tensors`.
std::string safetensors_header(std::span<const SafeTensor> tensors,
                               const std::map<std::string, std::string>& metadata);

struct SafeTensorsFile {
  std::vector<SafeTensor> tensors;  // by offset
  std::map<std::string, std::string> metadata;
  std::size_t data_begin = 0;  // in the file
};

// The bytes of the header with its length, by the first 8 bytes of a file. Throws std::runtime_error if that
// is more than the file has.
std::uint64_t safetensors_header_size(std::string_view first_bytes, std::uint64_t file_size);

// Reads the header of a file of `file_size` bytes that begins with `head`, which holds the header whole.
// Every tensor is float32, fills its shape, and the tensors fill the file without holes or overlap. Throws
// std::runtime_error that says what does not hold.
SafeTensorsFile parse_safetensors(std::string_view head, std::uint64_t file_size);
inline SafeTensorsFile parse_safetensors(std::string_view file) {
  return parse_safetensors(file, file.size());
}

}  // namespace mlk::rt
