#include "cli/code/folder.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/image/open_file.h"
#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk::image {
namespace {

namespace fs = std::filesystem;

#ifdef __APPLE__
const timespec& modified(const struct stat& status) { return status.st_mtimespec; }
const timespec& changed(const struct stat& status) { return status.st_ctimespec; }
#else
const timespec& modified(const struct stat& status) { return status.st_mtim; }
const timespec& changed(const struct stat& status) { return status.st_ctim; }
#endif

std::int64_t nanoseconds(const timespec& time) {
  constexpr std::int64_t in_a_second = 1'000'000'000;
  return std::int64_t{time.tv_sec} * in_a_second + time.tv_nsec;
}

NamedEntry::Kind kind_of(mode_t mode) {
  return S_ISREG(mode)   ? NamedEntry::Kind::file
         : S_ISDIR(mode) ? NamedEntry::Kind::folder
         : S_ISLNK(mode) ? NamedEntry::Kind::link
                         : NamedEntry::Kind::other;
}

[[noreturn]] void refuse_folder(const fs::path& path, int error) {
  if (error == ENOENT || error == ENOTDIR || error == ELOOP)
    throw Error(ExitCode::not_found, "there is no folder " + path.string());
  throw Error(ExitCode::failure, fmt::format("code: cannot read the folder {}: {}", printable(path.string()),
                                             std::strerror(error)));
}

int open_folder(const fs::path& top, const std::string& path) {
  constexpr int flags = O_RDONLY | O_CLOEXEC | O_DIRECTORY;
  if (path.empty()) return open(top.c_str(), flags);
  const std::string folder = path.substr(0, path.size() - 1);
  WayDown way(top);
  return openat(way.folder_of(folder).number(), name_of_path(folder).c_str(), flags | O_NOFOLLOW);
}

}  // namespace

Folder read_folder(const fs::path& top, const std::string& path) {
  const fs::path folder = path.empty() ? top : top / path;
  const int number = open_folder(top, path);
  if (number < 0) refuse_folder(folder, errno);
  DIR* stream = fdopendir(number);
  if (stream == nullptr) {
    const int error = errno;
    close(number);
    refuse_folder(folder, error);
  }
  Folder out{.open = std::shared_ptr<DIR>(stream, closedir), .entries = {}};
  while (true) {
    errno = 0;
    const dirent* entry = readdir(stream);
    if (entry == nullptr && errno != 0) refuse_folder(folder, errno);
    if (entry == nullptr) return out;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    mode_t mode = DTTOIF(entry->d_type);
    if (entry->d_type == DT_UNKNOWN) {  // some file systems do not report the type
      struct stat status{};
      if (fstatat(number, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) fail_with(folder / name, errno);
      mode = status.st_mode;
    }
    out.entries.push_back({std::string(name), kind_of(mode)});
  }
}

std::string link_target(DIR& folder, const fs::path& top, const std::string& path) {
  constexpr std::size_t longest = 4096;
  std::string target(longest, '\0');
  const ssize_t size = readlinkat(dirfd(&folder), name_of_path(path).c_str(), target.data(), target.size());
  if (size < 0)
    throw Error(ExitCode::failure,
                fmt::format("code: {}: {}", printable((top / path).string()), std::strerror(errno)));
  target.resize(static_cast<std::size_t>(size));
  return target;
}

FileStatus status_of(DIR& folder, const fs::path& top, const std::string& path) {
  struct stat status{};
  const char* name = path.c_str() + path.rfind('/') + 1;
  int error = fstatat(dirfd(&folder), name, &status, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
  if (error == 0 && !S_ISREG(status.st_mode)) error = ENOENT;
  if (error != 0)
    throw Error(ExitCode::failure,
                fmt::format("code: {}: {}", printable((top / path).string()), std::strerror(error)));
  return {.size = static_cast<std::uint64_t>(status.st_size),
          .executable = (status.st_mode & S_IXUSR) != 0,
          .stamp = {nanoseconds(modified(status)), nanoseconds(changed(status)), status.st_ino}};
}

std::string beginning_of(DIR& folder, const std::string& name, std::size_t most) {
  std::string out(most, '\0');
  const int file = openat(dirfd(&folder), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const ssize_t size = file < 0 ? 0 : read(file, out.data(), out.size());
  if (file >= 0) close(file);
  out.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return out;
}

}  // namespace mlk::image
