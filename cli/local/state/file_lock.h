// Advisory locks on files: a lock shows whether the process that holds it is still alive.
#pragma once

#include <filesystem>
#include <sys/types.h>

namespace mlk::local {

// The holder of a lock.
struct Holder {
  bool held = false;
  pid_t pid = 0;  // 0: a process of another machine (the folder lies on NFS) or of another container

  bool here() const { return held && pid > 0; }
  bool elsewhere() const { return held && pid <= 0; }
  bool operator==(const Holder&) const = default;
};

// An advisory lock on a file, held until destruction or the end of the process. This process must open the
// file nowhere else: closing any descriptor of it would release the lock.
class FileLock {
 public:
  // Does not wait. `held()` returns whether the lock was free and belongs to this object now.
  explicit FileLock(const std::filesystem::path& file);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  bool held() const { return held_; }
  // The reason why no process can lock the file, as an errno, such as ENOLCK of file systems without locks.
  // 0: the file can be locked.
  int error() const { return error_; }

  // The holder itself must not call this function, since a process cannot see its own locks. A file that
  // cannot be opened has no holder.
  static Holder holder(const std::filesystem::path& file);

 private:
  int fd_;
  bool held_ = false;
  int error_ = 0;
};

}  // namespace mlk::local
