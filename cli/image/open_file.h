// Reads files that mlk sends. If a file changes meanwhile, this is an error. Also writes to open files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace mlk::image {

// An open file, which the destructor closes. If number() is below 0, open() has failed, and errno holds the
// reason.
class OpenFile {
 public:
  OpenFile(const std::filesystem::path& path, int flags, mode_t mode = 0600);
  OpenFile(const OpenFile& folder, const std::string& path, int flags);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// Opens the folders below `top` part by part. No part may be a link: a program that meanwhile replaces a
// folder by a link cannot lead mlk out of `top`. The folders of a path stay open for the next path. For one
// thread.
class WayDown {
 public:
  // `top` itself may be a link. Throws Error{failure} if `top` cannot be opened.
  explicit WayDown(const std::filesystem::path& top);
  // The folder that holds this path below `top`. Throws Error{failure} if the folder does not exist, or if a
  // part of its path is a link.
  const OpenFile& folder_of(const std::string& path);

 private:
  const std::filesystem::path shown_;
  const OpenFile top_;
  std::vector<std::pair<std::string, std::unique_ptr<OpenFile>>> open_{};  // each inside the previous one
};

// The last part of a path.
std::string name_of_path(const std::string& path);

// Throws Error{failure} with the system's message for a value of errno.
[[noreturn]] void fail_with(const std::filesystem::path& path, int error);

// Reads a file of `size` bytes, in parts. Throws Error{failure} if the file cannot be read, or if it changes
// while mlk reads it.
void read_whole(const std::filesystem::path& path, std::uint64_t size,
                const std::function<void(std::string_view)>& take);
// Does the same for a file in an open folder. `path`: for messages; the last part is the name of the file.
void read_whole(const OpenFile& folder, const std::filesystem::path& path, std::uint64_t size,
                const std::function<void(std::string_view)>& take);
// Reads a file in an open folder into `to`, which has room for `size` + 1 bytes. Throws as the other
// read_whole(). `path`: for messages; the last part is the name of the file.
void read_whole(const OpenFile& folder, const std::string& path, std::uint64_t size, char* to);

// Writes all bytes to an open file. Throws Error{failure}. `path`: the path of the file, for messages.
void write_whole(const OpenFile& file, const std::filesystem::path& path, std::string_view bytes);

}  // namespace mlk::image
