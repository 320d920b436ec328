#include "runtime/checkpoint/disk.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <random>
#include <system_error>
#include <unistd.h>

namespace mlk::rt {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_system(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

Descriptor::Descriptor(const fs::path& path, int flags, mode_t mode)
    : path_(path), fd_(open(path.c_str(), flags | O_CLOEXEC, mode)) {
  if (fd_ < 0) fail_system(path_.string());
}

Descriptor::~Descriptor() { close(fd_); }

void Descriptor::write_all(const void* data, std::size_t size) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd_, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_system(path_.string());
    bytes += n;
    size -= static_cast<std::size_t>(n);
  }
}

void Descriptor::start_sync() { sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE); }

void Descriptor::sync() {
  if (fsync(fd_) != 0) fail_system(path_.string());
}

void write_text(const fs::path& path, const std::string& text) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
  file.write_all(text.data(), text.size());
  file.sync();
}

void sync_folder(const fs::path& path) { Descriptor(path, O_RDONLY | O_DIRECTORY).sync(); }

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

std::string random_name() {
  std::random_device random;
  char name[24];
  std::snprintf(name, sizeof name, "%08x%08x", random(), random());
  return name;
}

}  // namespace mlk::rt
