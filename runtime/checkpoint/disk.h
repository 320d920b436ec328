// Writes files, and waits until they are on the disk.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <sys/types.h>

namespace mlk::rt {

// An open file or folder. The destructor closes it. Errors are thrown as std::system_error, which names the
// file or folder.
class Descriptor {
 public:
  // flags, mode: as for open(2).
  Descriptor(const std::filesystem::path& path, int flags, mode_t mode = 0);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write_all(const void* data, std::size_t size);
  // Makes the disk begin to store what was written so far. Errors are reported by sync().
  void start_sync();
  void sync();

 private:
  std::filesystem::path path_;
  int fd_;
};

// Writes a new file, and waits until the disk has it. Throws std::system_error.
void write_text(const std::filesystem::path& path, const std::string& text);

void sync_folder(const std::filesystem::path& path);  // throws std::system_error
void remove_quietly(const std::filesystem::path& path);

// 16 random hexadecimal digits.
std::string random_name();

}  // namespace mlk::rt
