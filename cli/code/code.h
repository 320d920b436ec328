// Packs a folder of code that travels with a run: as one small archive, or as a layer of an image.
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

// Limits in bytes: for all files in an archive together, and for the uncompressed archive, which also has the
// names of the files. Pods unpack the archive into their memory or disk.
inline constexpr std::size_t most_unpacked_code = 64 << 20, longest_tar = 2 * most_unpacked_code;

// Code of more bytes than this takes seconds to compress. So mlk first only computes the digest of such code,
// because a layer with this digest may already exist.
inline constexpr std::uint64_t long_to_compress = 64 << 20;

struct Code {
  std::string digest;                // sha256 of the uncompressed archive, hexadecimal; identifies the files
  std::string archive;               // tar, gzip; empty if the archive or the files are too large
  std::uint64_t size = 0;            // of all files together
  std::vector<std::string> files{};  // paths, in the order of their bytes
  std::vector<std::string> warnings{};  // for the user
  Tree tree{};
};

enum class TooLarge { is_refused, has_no_archive };

// How mlk stores layers of code: as files in `cache`, with the code in the folder `prefix` of the image.
struct CodeLayers {
  std::filesystem::path cache;
  std::string prefix;             // "mlk/code"
  std::function<bool()> go_on{};  // false: the user wants to stop

  std::filesystem::path file_of(const std::string& digest) const;
};

struct PackOptions {
  std::size_t most_bytes;  // of the archive; 0: no archive, the code becomes a layer
  TooLarge too_large = TooLarge::is_refused;
  std::filesystem::path cache{};  // the folder of records (pack_cache.h); empty: no records
  // The place of the layer, for code that becomes a layer. If most_bytes is 0 and the code has at most
  // long_to_compress bytes, pack_code() writes the layer while it reads the files for the digest. Otherwise
  // callers write it by write_code_layer().
  std::optional<CodeLayers> layers{};
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
};

// Packs those files of the folder that travel. The same files, executable bits and links give the same digest
// on every machine. Owners and times do not matter. Throws Error{usage} if no file travels, or if the files
// have more bytes than an archive or an image may hold. Throws Error{failure} if a file cannot be read, or
// changes meanwhile. Throws as list_tree(). Never throws because of `options.cache`.
Code pack_code(const std::filesystem::path& folder, const TreeRules& rules, const PackOptions& options);

// Writes the files as a layer if the layer does not exist yet. Any user of a container may write to the
// files, since each container has its own copy. Throws Error{failure}, and Error{usage} for a name that has a
// special meaning in layers.
void write_code_layer(const std::filesystem::path& folder, const Code& code, const CodeLayers& layers);

// The uncompressed archive of the code in a layer that write_code_layer() has made. The digest of this
// archive is Code::digest. `layer`: the uncompressed layer. Throws Error{failure}. Pure.
std::string archive_of_layer(std::string_view layer, const std::string& prefix);

// Writes the archive of `code` to `file`, unless an undamaged copy is already there. For code whose
// Code::archive is empty. Throws Error{failure}.
void write_archive(const std::filesystem::path& folder, const Code& code, const std::filesystem::path& file,
                   const std::function<bool()>& go_on = {});

}  // namespace mlk::image
