// Lists the folders and files of the code by system calls. With std::filesystem, the listing of ten thousand
// files would take longer than all other steps of packing together.
#pragma once

#include <cstdint>
#include <dirent.h>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace mlk::image {

struct NamedEntry {
  enum class Kind { file, folder, link, other };
  std::string name;
  Kind kind = Kind::other;
};

// At least one of these values changes when a program changes or replaces a file. Times are in nanoseconds
// since 1970.
struct Stamp {
  std::int64_t modified = 0;  // programs may set it to any time
  std::int64_t changed = 0;   // only the system sets it
  std::uint64_t inode = 0;
};

struct FileStatus {
  std::uint64_t size = 0;
  bool executable = false;
  Stamp stamp;
};

struct Folder {
  std::shared_ptr<DIR> open;
  std::vector<NamedEntry> entries;  // in no order
};

// Opens and lists the folder `path` below `top`. `path` is empty or ends with a slash. Only `top` itself may
// be a link. Throws Error{not_found} if there is no such folder, Error{failure} if it cannot be read.
Folder read_folder(const std::filesystem::path& top, const std::string& path);

// The target of the link at `path` below `top`. `folder`: the open folder that holds the link. Throws
// Error{failure} if `path` is no longer a link.
std::string link_target(DIR& folder, const std::filesystem::path& top, const std::string& path);

// The status of the file at `path` below `top`. `folder`: the open folder that holds the file. Throws
// Error{failure} if `path` is no longer a file. Safe from several threads.
FileStatus status_of(DIR& folder, const std::filesystem::path& top, const std::string& path);

// The first bytes of a file in this folder, at most `most`; empty if the file cannot be read.
std::string beginning_of(DIR& folder, const std::string& name, std::size_t most);

}  // namespace mlk::image
