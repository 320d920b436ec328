// Files that travel: read whole, or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace mlk::image {

// Closed at its end. A number below 0: it could not be opened, and errno says why.
class OpenFile {
 public:
  OpenFile(const std::filesystem::path& path, int flags);
  OpenFile(const OpenFile& folder, const std::string& path, int flags);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// Throws Error{failure} with the system's words for a value of errno.
[[noreturn]] void fail_with(const std::filesystem::path& path, int error);

// The bytes of a file of `size` bytes, in parts. Throws Error{failure} if it cannot be read, or changes
// meanwhile.
void read_whole(const std::filesystem::path& path, std::uint64_t size,
                const std::function<void(std::string_view)>& take);
// The same for a file of a folder, into memory for one byte more than its size.
void read_whole(const OpenFile& folder, const std::string& path, std::uint64_t size, char* to);

}  // namespace mlk::image
