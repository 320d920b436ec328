#include "cli/util/output_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

constexpr mode_t permissions = 07777, usual = 0666;

// Whether the path may name a file that a process has opened already, such as /dev/stdout. mlk appends to
// such a file.
bool is_open_already(const fs::path& path) {
  const std::string text = fs::absolute(path).lexically_normal().string();
  return text.starts_with("/dev/");
}

// The path at the end of all links, even if no file exists there yet.
fs::path end_of_links(fs::path path) {
  constexpr int most_links = 40;
  std::error_code error;
  for (int i = 0; i < most_links && fs::is_symlink(fs::symlink_status(path, error)); ++i) {
    const fs::path to = fs::read_symlink(path, error);
    if (error) break;
    path = to.is_absolute() ? to : path.parent_path() / to;
  }
  return path;
}

}  // namespace

WriteWay way_to_write(const std::optional<Goal>& goal) {
  if (!goal) return WriteWay::as_new;
  if (S_ISDIR(goal->mode)) return WriteWay::refused;
  return S_ISREG(goal->mode) && goal->names == 1 && goal->is_own ? WriteWay::replaced : WriteWay::in_place;
}

OutputFile::OutputFile(const fs::path& path) : shown_(path), goal_(path) {
  struct stat there{};
  std::optional<Goal> goal;
  if (::stat(path.c_str(), &there) == 0) {
    goal = Goal{there.st_mode, there.st_nlink, there.st_uid == ::geteuid()};
  } else if (errno != ENOENT) {
    fail(errno);
  }
  const bool is_open = is_open_already(path);
  const WriteWay way = goal && is_open && !S_ISDIR(goal->mode) ? WriteWay::in_place : way_to_write(goal);
  if (way == WriteWay::refused)
    throw Error(ExitCode::usage, printable(path.string()) + " is a folder, not a file");
  if (way != WriteWay::in_place) {
    goal_ = end_of_links(path);
    open_aside(goal ? there.st_mode & permissions : usual, goal.has_value());
    if (file_ >= 0) return;
    aside_.clear();
    if (!goal) fail(errno);  // an existing file may be writable although its folder is not
  }
  file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | (is_open ? O_APPEND : O_TRUNC));
  if (file_ < 0 && errno == EINTR) throw Error(ExitCode::interrupted, "interrupted");
  if (file_ < 0) fail(errno);
}

void OutputFile::open_aside(mode_t mode, bool keeps_mode) {
  aside_ = beside(goal_);
  file_ =
      ::open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, keeps_mode ? 0600 : mode);
  if (file_ >= 0 && keeps_mode) (void)::fchmod(file_, mode);
}

OutputFile::~OutputFile() {
  if (file_ >= 0) ::close(file_);
  if (!aside_.empty()) ::unlink(aside_.c_str());
}

void OutputFile::fail(int error) const {
  throw Error(ExitCode::failure, "cannot write " + printable(shown_.string()) + ": " + std::strerror(error));
}

void OutputFile::put(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) throw Error(ExitCode::interrupted, "interrupted");
    if (count < 0) fail(errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

void OutputFile::finish() {
  if (!aside_.empty() && ::fsync(file_) != 0) fail(errno);
  const int closed = ::close(file_);
  file_ = -1;
  if (closed != 0) fail(errno);
  if (aside_.empty()) return;
  if (::rename(aside_.c_str(), goal_.c_str()) != 0) fail(errno);
  aside_.clear();
}

void write_user_file(const fs::path& path, std::string_view text) {
  OutputFile file(path);
  file.put(text);
  file.finish();
}

}  // namespace mlk
