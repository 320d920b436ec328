#include "cli/local/state/file_lock.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace mlk::local {
namespace {

struct flock whole_file() {
  struct flock whole{};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return whole;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& file)
    : fd_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  struct flock whole = whole_file();
  held_ = fd_ >= 0 && ::fcntl(fd_, F_SETLK, &whole) == 0;
  const bool taken = fd_ >= 0 && (errno == EACCES || errno == EAGAIN);
  if (!held_ && !taken) error_ = errno;
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

Holder FileLock::holder(const std::filesystem::path& file) {
  // O_NONBLOCK: open() must not wait if the path is not a plain file.
  const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return {};
  struct flock whole = whole_file();
  const bool asked = ::fcntl(fd, F_GETLK, &whole) == 0;
  ::close(fd);
  if (!asked || whole.l_type == F_UNLCK) return {};
  // The process id is -1 for a process of another machine (NFS), and 0 for a process outside of the PID
  // namespace.
  return {true, std::max<pid_t>(whole.l_pid, 0)};
}

}  // namespace mlk::local
