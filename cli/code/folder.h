// Folders and files of the code that travels, as the system knows them. For folders of ten thousand files,
// where std::filesystem takes most of the time.
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

// What changes when somebody writes to a file. Nanoseconds since 1970.
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

// The folder `path` below `top`, which is empty or ends with a slash; only `top` itself may be a link. Throws
// Error: not_found if there is no such folder, failure if it cannot be read.
Folder read_folder(const std::filesystem::path& top, const std::string& path);

// Where the link at `path` below `top`, in this folder, leads. Throws Error{failure} if it is none any more.
std::string link_target(DIR& folder, const std::filesystem::path& top, const std::string& path);

// Of the file at `path` below `top`, in this folder. Throws Error{failure} if it is no file any more. Safe
// from several threads.
FileStatus status_of(DIR& folder, const std::filesystem::path& top, const std::string& path);

// The first bytes of a file in this folder, at most `most`; empty if it cannot be read.
std::string beginning_of(DIR& folder, const std::string& name, std::size_t most);

}  // namespace mlk::image
