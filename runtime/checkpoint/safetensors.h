// The safetensors format: the length of the header (u64), the header (JSON), the bytes of the tensors; all
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

// One tensor of a file. Offset and size count bytes from the end of the header.
struct SafeTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t offset = 0, size = 0;
  std::string type = "F32";  // the format's name for the type of the numbers
};

// All bytes before the data of a file with these tensors: the length, the JSON, and spaces up to a multiple
// of 8.
std::string safetensors_header(std::span<const SafeTensor> tensors,
                               const std::map<std::string, std::string>& metadata);

struct SafeTensorsFile {
  std::vector<SafeTensor> tensors;  // sorted by offset
  std::map<std::string, std::string> metadata;
  std::size_t data_begin = 0;  // in the file
};

// The size of the header together with the 8 bytes of its length, which are the first bytes of a file. Throws
// std::runtime_error if the header does not fit into the file, or if it is larger than JSON may be (json.h).
std::uint64_t safetensors_header_size(std::string_view first_bytes, std::uint64_t file_size);

// Parses the header of a file of `file_size` bytes; `head` is its beginning and holds the whole header. Every
// tensor must have a type whose numbers fill whole bytes, and exactly the bytes that its shape needs.
// Together the tensors must fill the file without gaps or overlap. Throws std::runtime_error whose text says
// what is wrong.
SafeTensorsFile parse_safetensors(std::string_view head, std::uint64_t file_size);

}  // namespace mlk::rt
