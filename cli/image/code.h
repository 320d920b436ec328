// A folder of code as one archive that travels with a run.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/image/tree.h"

namespace mlk::image {

// Of files, and of the archive with their names, before it is compressed: it has to fit into memory.
inline constexpr std::size_t most_unpacked_code = 64 << 20, longest_tar = 2 * most_unpacked_code;

struct Code {
  std::string digest;   // sha256 of the archive before it is compressed, hexadecimal: that of the files
  std::string archive;  // tar, gzip
  std::vector<std::string> files;     // paths, in the order of their bytes
  std::vector<std::string> warnings;  // for people
};

// The same files, executable bits and links give the same digest on every machine, whatever their owners and
// times. The archive has at most `most_bytes`. Throws Error: usage if it would have more, with the largest
// files; failure for a file that cannot be read, or changes meanwhile; and as list_tree().
Code pack_code(const std::filesystem::path& folder, const TreeRules& rules, std::size_t most_bytes);

}  // namespace mlk::image
