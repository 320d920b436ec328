#include "pod/tree.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "pod/base/output.h"

namespace mlk::pod {
namespace {

constexpr std::size_t copied_at_once = 1 << 20;

std::string cannot(const char* what, const std::string& path) {
  return std::string("cannot ") + what + " " + path + ": " + std::strerror(errno);
}

bool copy_bytes(int in, int out) {
  std::vector<std::byte> part(copied_at_once);
  while (true) {
    const ssize_t size = ::read(in, part.data(), part.size());
    if (size == 0) return true;
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 || !write_all(out, std::span(part).first(static_cast<std::size_t>(size)), -1)) return false;
  }
}

std::string copy_file(const std::string& from, const std::string& to, const struct stat& info) {
  const std::string aside = to + ".mlk-copy";
  const int in = ::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (in < 0) return cannot("read", from);
  const int out = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, info.st_mode & 0777);
  bool good = out >= 0 && copy_bytes(in, out);
  if (good) {
    const timespec times[2] = {info.st_atim, info.st_mtim};
    ::futimens(out, times);
  }
  const int error = errno;
  ::close(in);
  if (out >= 0) good = ::close(out) == 0 && good;
  if (good && ::rename(aside.c_str(), to.c_str()) == 0) return {};
  if (!good) errno = error;
  std::string mistake = cannot("write", to);
  ::unlink(aside.c_str());
  return mistake;
}

std::string copy_link(const std::string& from, const std::string& to) {
  char text[PATH_MAX];
  const ssize_t size = ::readlink(from.c_str(), text, sizeof text);
  if (size < 0) return cannot("read", from);
  ::unlink(to.c_str());
  const std::string content(text, static_cast<std::size_t>(size));
  return ::symlink(content.c_str(), to.c_str()) == 0 ? std::string() : cannot("write", to);
}

}  // namespace

bool names_in(const std::string& folder, std::vector<std::string>& names) {
  DIR* open = ::opendir(folder.c_str());
  if (open == nullptr) return false;
  while (const dirent* entry = ::readdir(open)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(open);
  return true;
}

bool make_folders(const std::string& path) {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (!part.empty() && ::mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) {
      // A folder that is there already may be one in which nothing can be made, such as one of the root's.
      struct stat info{};
      const int error = errno;
      if (::stat(part.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
        errno = error;
        return false;
      }
    }
    if (slash == path.npos) break;
  }
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return false;
  if (S_ISDIR(info.st_mode)) return true;
  errno = ENOTDIR;
  return false;
}

std::string copy_tree(const std::string& from, const std::string& to, Existing existing) {
  struct stat info{}, there{};
  if (::lstat(from.c_str(), &info) != 0) return cannot("read", from);
  if (!S_ISDIR(info.st_mode)) {
    if (existing == Existing::stays && ::lstat(to.c_str(), &there) == 0) return {};
    return S_ISREG(info.st_mode)   ? copy_file(from, to, info)
           : S_ISLNK(info.st_mode) ? copy_link(from, to)
                                   : "";
  }
  if (!make_folders(to)) return cannot("make", to);
  std::vector<std::string> names;
  if (!names_in(from, names)) return cannot("read", from);
  std::string first;  // one file that cannot be copied must not keep the others back
  for (const std::string& name : names) {
    std::string mistake = copy_tree(from + "/" + name, to + "/" + name, existing);
    if (first.empty()) first = std::move(mistake);
  }
  return first;
}

std::string remove_tree(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return errno == ENOENT ? std::string() : cannot("read", path);
  if (!S_ISDIR(info.st_mode)) return ::unlink(path.c_str()) == 0 ? std::string() : cannot("remove", path);
  std::vector<std::string> names;
  if (!names_in(path, names)) return cannot("read", path);
  for (const std::string& name : names) {
    if (std::string mistake = remove_tree(path + "/" + name); !mistake.empty()) return mistake;
  }
  return ::rmdir(path.c_str()) == 0 ? std::string() : cannot("remove", path);
}

}  // namespace mlk::pod
