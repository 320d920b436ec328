// Files that travel: read whole, or not at all.
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

// Closed at its end. A number below 0: it could not be opened, and errno says why.
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

// Opens what lies below a folder part by part, and none of the parts may be a link: whoever exchanges a
// folder for a link meanwhile does not lead it out. Folders on the way stay open, for the next path. One
// thread.
class WayDown {
 public:
  // The folder itself may be a link. Throws Error{failure}.
  explicit WayDown(const std::filesystem::path& top);
  // The folder of this path below the top. Throws Error{failure} if it is not there, or not without a link.
  const OpenFile& folder_of(const std::string& path);

 private:
  const std::filesystem::path shown_;
  const OpenFile top_;
  std::vector<std::pair<std::string, std::unique_ptr<OpenFile>>> open_{};  // parts, each below the one before
};

// Its last part.
std::string name_of_path(const std::string& path);

// Throws Error{failure} with the system's words for a value of errno.
[[noreturn]] void fail_with(const std::filesystem::path& path, int error);

// The bytes of a file of `size` bytes, in parts. Throws Error{failure} if it cannot be read, or changes
// meanwhile.
void read_whole(const std::filesystem::path& path, std::uint64_t size,
                const std::function<void(std::string_view)>& take);
// The same for a file of a folder, of whose path messages tell.
void read_whole(const OpenFile& folder, const std::string& name, const std::filesystem::path& shown,
                std::uint64_t size, const std::function<void(std::string_view)>& take);
// The same into memory for one byte more than its size.
// `path`: for messages; its last part is the name.
void read_whole(const OpenFile& folder, const std::string& path, std::uint64_t size, char* to);

}  // namespace mlk::image
