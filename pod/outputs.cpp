#include "pod/outputs.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

#include "pod/tree.h"

namespace mlk::pod {
namespace {

std::string reason() { return std::strerror(errno); }

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// "uid 1000 cannot write in /mlk/outputs (mode 755, owner 0:0): Permission denied", of the nearest folder
// above `path` that is there.
std::string not_writable(const std::string& path) {
  const std::string why = reason();
  std::string there = path;
  struct stat info{};
  while (::stat(there.c_str(), &info) != 0 && there != "/" && there != ".") there = parent_of(there);
  char here[PATH_MAX];
  if (there == "." && ::getcwd(here, sizeof here) != nullptr) there = here;
  char text[64];
  std::snprintf(text, sizeof text, " (mode %o, owner %u:%u): ", info.st_mode & 07777, info.st_uid,
                info.st_gid);
  return "uid " + std::to_string(::getuid()) + " cannot write in " + there + text + why;
}

bool leads_to(const std::string& path, const std::string& target) {
  char text[PATH_MAX];
  const ssize_t size = ::readlink(path.c_str(), text, sizeof text);
  return size > 0 && std::string(text, static_cast<std::size_t>(size)) == target;
}

}  // namespace

std::string make_place(const std::string& place) {
  if (make_folders(place) && ::access(place.c_str(), W_OK | X_OK) == 0) return {};
  return not_writable(place) + "; let it write there, or name another with user:";
}

std::string link_output(const std::string& path, const std::string& target) {
  struct stat info{};
  const bool there = ::lstat(path.c_str(), &info) == 0, is_ours = leads_to(path, target);
  if (there && !is_ours && !S_ISDIR(info.st_mode))
    return "outputs: " + path + " is there already and is no folder; outputs names folders";
  if (!make_folders(target)) return not_writable(target);
  if (is_ours) return {};
  if (there) {
    if (const std::string mistake = copy_tree(path, target, Existing::stays); !mistake.empty())
      return mistake;
    if (const std::string mistake = remove_tree(path); !mistake.empty()) return mistake;
  } else if (!make_folders(parent_of(path))) {
    return not_writable(parent_of(path));
  }
  if (::symlink(target.c_str(), path.c_str()) != 0) return not_writable(parent_of(path));
  return {};
}

std::string keep_output(const std::string& path, const std::string& target) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || S_ISLNK(info.st_mode)) return {};
  return copy_tree(path, target, Existing::is_replaced);
}

}  // namespace mlk::pod
