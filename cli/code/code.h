// A folder of code that travels with a run: as one small archive, or as a layer of an image.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/code/tree.h"
#include "cli/image/layer.h"

namespace mlk::image {

// Of files, and of the archive with their names, before it is compressed: pods unpack it into their memory or
// disk.
inline constexpr std::size_t most_unpacked_code = 64 << 20, longest_tar = 2 * most_unpacked_code;

// Code of more bytes takes seconds to compress. It is read for its digest first: its layer may be there
// already.
inline constexpr std::uint64_t long_to_compress = 64 << 20;

struct Code {
  std::string digest;      // sha256 of the archive before it is compressed, hexadecimal: that of the files
  std::string archive;     // tar, gzip; empty if it has more bytes than it may have
  std::uint64_t size = 0;  // of the files, together
  std::vector<std::string> files{};     // paths, in the order of their bytes
  std::vector<std::string> warnings{};  // for people
  Tree tree{};
};

enum class TooLarge { is_refused, has_no_archive };

// Layers of code in a cache, each below the same folder of an image.
struct CodeLayers {
  std::filesystem::path cache;
  std::string prefix;             // "mlk/code"
  std::function<bool()> go_on{};  // false: the user wants to stop

  std::filesystem::path file_of(const std::string& digest) const;
};

struct PackOptions {
  std::size_t most_bytes;  // of the archive; 0: it has none, and becomes a layer
  TooLarge too_large = TooLarge::is_refused;
  std::filesystem::path cache{};  // where is kept what spares reading the files again; empty: nowhere
  // Where the layer of code goes that becomes one. It is written while the files are read for the digest,
  // except for code above long_to_compress.
  std::optional<CodeLayers> layers{};
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
};

// The same files, executable bits and links give the same digest on every machine, whatever their owners and
// times. Throws Error: usage for a folder with nothing that travels, or with more than any image should hold;
// failure for a file that cannot be read, or changes meanwhile; and as list_tree(). Never because of the
// cache.
Code pack_code(const std::filesystem::path& folder, const TreeRules& rules, const PackOptions& options);

// The files as a layer, unless it is there. Whoever the program is may write there: each container has a copy
// of its own. Throws Error: failure, and usage for a name that layers give a meaning of their own.
void write_code_layer(const std::filesystem::path& folder, const Code& code, const CodeLayers& layers);

// The archive of the files in a layer that write_code_layer() has made, as pack_code() would make it. Throws
// Error{failure}. Pure.
std::string archive_of_layer(std::string_view layer, const std::string& prefix);

// The archive of code that has none in memory, into a file, unless that is there. Throws Error{failure}.
void write_archive(const std::filesystem::path& folder, const Code& code, const std::filesystem::path& file,
                   const std::function<bool()>& go_on = {});

}  // namespace mlk::image
