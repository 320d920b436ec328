// Tar archives in GNU's format. mlk has its own writer so that the same entries give the same bytes on every
// machine. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mlk::image {

inline constexpr std::size_t longest_path = 4096;  // the limit of Linux, in bytes
inline constexpr std::size_t tar_block = 512;      // bytes: headers and contents fill whole blocks

struct TarEntry {
  enum class Kind { file, folder, link };

  std::string path;  // relative, without "..", with '/' between its parts; of any length
  Kind kind = Kind::file;
  bool executable = false;
  std::string target{};  // of a link
  unsigned mode = 0;     // permissions; 0: the usual ones, 0644 or 0755
};

// Appends an entry. Owner and group are 0. The time is the first second of 1980, the earliest time in zip
// archives. `content`: the content of a file.
void append_to_tar(std::string& tar, const TarEntry& entry, std::string_view content);

// The header before a content of `size` bytes, and the length of the padding after the content.
std::string tar_header(const TarEntry& entry, std::uint64_t size);
std::size_t tar_padding(std::uint64_t size);

// The bytes at the end of an archive.
std::string tar_end();

// Whether the target of a link at this path is inside the folder of the archive. The target may have ".."
// only at its beginning, where ".." leads to a parent folder of the link. These parent folders are no links,
// so a chain of links that pass this check cannot lead out.
bool leads_inside(const std::string& path, const std::string& target);

struct TarFile {
  TarEntry entry;
  std::string_view content;  // of a file; points into the archive
};

// Returns the entries of an archive. append_to_tar() must have written them, in the order of their paths.
// Throws Error{failure} for any other archive, for example if it is cut off, or has other kinds of entries,
// paths of more than 4096 bytes, or paths or links that lead out of the target folder. `before_each`: called
// before each entry; may throw if the user wants to stop.
std::vector<TarFile> read_tar(std::string_view tar, const std::function<void()>& before_each = {});

}  // namespace mlk::image
