#include "cli/files/folder_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/files/file_time.h"
#include "cli/util/hash.h"
#include "cli/util/text.h"

namespace mlk {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t part_bytes = 1 << 20;

// Reads the open file; returns what went wrong, or "".
std::string read_open(int file, std::uint64_t offset, const FileSink& sink,
                      const std::function<void()>& check) {
  struct stat info{};
  if (::fstat(file, &info) != 0) return std::strerror(errno);
  if (!S_ISREG(info.st_mode)) return "not a file";
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (offset > size) return "became shorter";
  sink.begin(size, mtime_ns_of(info));
  Sha256 hash;
  std::string part(part_bytes, '\0');
  for (std::uint64_t at = 0; at < size;) {
    check();
    const std::size_t limit = std::min<std::uint64_t>(part.size(), (at < offset ? offset : size) - at);
    const ssize_t came = ::read(file, part.data(), limit);
    if (came < 0 && errno == EINTR) continue;
    if (came <= 0) return came < 0 ? std::strerror(errno) : "became shorter";
    const std::string_view bytes(part.data(), static_cast<std::size_t>(came));
    hash.add(bytes);
    if (at >= offset) sink.bytes(bytes);
    at += bytes.size();
  }
  sink.end(hash.hex());
  return "";
}

}  // namespace

FileSource::Listing FolderSource::list() {
  Listing out;
  std::error_code error;
  out.is_there = fs::is_directory(folder_, error);
  if (out.is_there) list_below("", out);
  return out;
}

void FolderSource::list_below(const std::string& below, Listing& out) const {
  check_();
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator at(folder_ / below, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error))
    names.push_back(at->path().filename());
  if (error) out.problems.push_back((folder_ / below).string() + ": " + error.message());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    FileEntry entry;
    entry.path = below.empty() ? name : below + "/" + name;
    struct stat info{};
    const fs::path path = folder_ / entry.path;
    if (::lstat(path.c_str(), &info) != 0) continue;
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) && !S_ISLNK(info.st_mode)) continue;
    entry.kind = S_ISREG(info.st_mode)   ? FileEntry::Kind::file
                 : S_ISDIR(info.st_mode) ? FileEntry::Kind::folder
                                         : FileEntry::Kind::link;
    entry.mode = info.st_mode & 07777;
    entry.size = static_cast<std::uint64_t>(info.st_size);
    entry.mtime_ns = mtime_ns_of(info);
    if (entry.kind == FileEntry::Kind::link) entry.target = fs::read_symlink(path, error).string();
    const bool is_folder = entry.kind == FileEntry::Kind::folder;
    const std::string inner = entry.path;
    out.entries.push_back(std::move(entry));
    if (is_folder) list_below(inner, out);
  }
}

void FolderSource::read(const std::vector<WantedFile>& wanted, const FileSink& sink) {
  for (const WantedFile& one : wanted) read_one(one, sink);
}

void FolderSource::read_one(const WantedFile& wanted, const FileSink& sink) const {
  const int file = ::open((folder_ / wanted.path).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return sink.failed(std::strerror(errno));
  struct Closer {
    int file;
    ~Closer() { ::close(file); }
  } closer{file};
  if (const std::string wrong = read_open(file, wanted.offset, sink, check_); !wrong.empty())
    sink.failed(wrong);
}

}  // namespace mlk
