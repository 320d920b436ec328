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

// Reads the header of a whole file. Every tensor is float32, fills its shape, and the tensors fill the file
// without holes or overlap. Throws std::runtime_error that says what does not hold.
SafeTensorsFile parse_safetensors(std::string_view file);

}  // namespace mlk::rt
