#include "cli/image/folder.h"

#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

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

// Few folders are open at once: each question keeps one.
constexpr std::size_t batch_files = 1000, batch_folders = 20, most_batches_at_once = 4;

}  // namespace

Folder read_folder(const fs::path& folder, Links links) {
  const int flags = O_RDONLY | O_CLOEXEC | O_DIRECTORY | (links == Links::are_refused ? O_NOFOLLOW : 0);
  const int number = open(folder.c_str(), flags);
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
    if (entry->d_type == DT_UNKNOWN) {  // some file systems do not say it
      struct stat status{};
      if (fstatat(number, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) fail_with(folder / name, errno);
      mode = status.st_mode;
    }
    out.entries.push_back({std::string(name), kind_of(mode)});
  }
}

void Statuses::ask(const Folder& folder, const std::string& path, std::vector<std::string> files) {
  if (files.empty()) return;
  files_in_batch_ += files.size();
  batch_.push_back({folder.open, path, std::move(files)});
  if (files_in_batch_ >= batch_files || batch_.size() == batch_folders) begin_batch();
}

void Statuses::begin_batch() {
  if (asked_.size() == most_batches_at_once) end_batch();
  files_in_batch_ = 0;
  asked_.push_back(std::async(std::launch::async, answer, std::exchange(batch_, {})));
}

void Statuses::end_batch() {
  const std::vector<FileStatus> found = asked_.front().get();
  asked_.pop_front();
  answers_.insert(answers_.end(), found.begin(), found.end());
}

std::vector<FileStatus> Statuses::answers() {
  const std::vector<FileStatus> last = answer(std::exchange(batch_, {}));
  while (!asked_.empty()) end_batch();
  answers_.insert(answers_.end(), last.begin(), last.end());
  return std::exchange(answers_, {});
}

std::vector<FileStatus> Statuses::answer(const std::vector<Question>& questions) {
  std::vector<FileStatus> out;
  out.reserve(batch_files);
  for (const Question& question : questions) {
    for (const std::string& file : question.files) {
      struct stat status{};
      int error =
          fstatat(dirfd(question.folder.get()), file.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
      if (error == 0 && !S_ISREG(status.st_mode)) error = ENOENT;
      if (error != 0)
        throw Error(ExitCode::failure, fmt::format("code: {}/{}: {}", printable(question.path),
                                                   printable(file), std::strerror(error)));
      out.push_back({.size = static_cast<std::uint64_t>(status.st_size),
                     .executable = (status.st_mode & S_IXUSR) != 0,
                     .stamp = {nanoseconds(modified(status)), nanoseconds(changed(status)), status.st_ino}});
    }
  }
  return out;
}

}  // namespace mlk::image
