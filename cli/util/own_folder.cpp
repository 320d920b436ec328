#include "cli/util/own_folder.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

// Does not follow a link, because another user may have made the link.
bool read_status(const fs::path& path, struct stat& status) { return ::lstat(path.c_str(), &status) == 0; }

// Makes the missing folders with the mode of the XDG Base Directory Specification.
void make_missing(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::exists(folder, error)) return;
  make_missing(folder.parent_path());
  ::mkdir(folder.c_str(), 0700);
}

}  // namespace

bool is_own(const struct stat& status) {
  return status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool is_own(const fs::path& path) {
  struct stat status{};
  return read_status(path, status) && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) && is_own(status);
}

void require_own_folder(const fs::path& folder, const std::string& hint) {
  struct stat status{};
  if (!read_status(folder, status) && (errno == ENOENT || errno == ENOTDIR)) return;
  if (!S_ISDIR(status.st_mode))
    throw Error(ExitCode::failure, "cannot make the folder " + printable(folder.string()));
  if (status.st_uid != ::geteuid())
    throw Error(ExitCode::failure, printable(folder.string()) + " belongs to another user", hint);
}

void make_own_folder(const fs::path& folder, const std::string& hint) {
  make_missing(folder.parent_path());
  const int made = ::mkdir(folder.c_str(), 0700) == 0 ? 0 : errno;
  struct stat status{};
  if (!read_status(folder, status))
    throw Error(ExitCode::failure,
                "cannot make the folder " + printable(folder.string()) + ": " + std::strerror(made), hint);
  require_own_folder(folder, hint);
  if ((status.st_mode & 0777) != 0700 && ::chmod(folder.c_str(), 0700) != 0)
    throw Error(ExitCode::failure, "cannot protect " + printable(folder.string()), hint);
}

void make_cache_folder(const fs::path& folder) {
  make_own_folder(folder, "set XDG_CACHE_HOME to a folder of your own");
}

}  // namespace mlk
