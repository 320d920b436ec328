#include "cli/files/bring.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/files/arriving_file.h"
#include "cli/files/file_time.h"
#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t most_in_request = 2000;

std::optional<struct stat> about(const fs::path& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 ? std::optional(info) : std::nullopt;
}

class Bringer {
 public:
  Bringer(FileSource& source, const fs::path& destination,
          const std::function<void(const Brought&)>& progress)
      : source_(source), destination_(destination), progress_(progress) {}

  Brought bring(const std::vector<ShownEntry>& entries) {
    std::vector<const ShownEntry*> files;
    for (const ShownEntry& each : entries) {
      if (!is_safe_path(each.shown)) {
        note(each, "its path is not one that mlk writes to");
      } else if (each.entry.kind == FileEntry::Kind::folder) {
        make_folder(each, each.shown);
      } else if (const std::size_t slash = each.shown.rfind('/');
                 slash != each.shown.npos && !make_folder(each, each.shown.substr(0, slash))) {
        continue;
      } else if (each.entry.kind == FileEntry::Kind::link) {
        make_link(each);
      } else if (is_there(each)) {
        ++out_.there_already;
      } else {
        files.push_back(&each);
      }
    }
    for (std::size_t at = 0; at < files.size(); at += most_in_request)
      read({files.begin() + static_cast<std::ptrdiff_t>(at),
            files.begin() + static_cast<std::ptrdiff_t>(std::min(at + most_in_request, files.size()))});
    return std::move(out_);
  }

 private:
  void note(const ShownEntry& entry, const std::string& why) {
    out_.problems.push_back(printable(entry.shown) + ": " + why);
  }

  bool make_folder(const ShownEntry& entry, const std::string& path) {
    if (folders_.contains(path)) return true;
    const std::size_t slash = path.rfind('/');
    if (slash != path.npos && !make_folder(entry, path.substr(0, slash))) return false;
    const fs::path folder = destination_ / path;
    if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
      throw Error(ExitCode::failure, fmt::format("cannot make the folder {}: {}", printable(folder.string()),
                                                 std::strerror(errno)));
    const std::optional<struct stat> info = about(folder);
    if (!info || !S_ISDIR(info->st_mode)) {
      note(entry, printable(folder.string()) + " is there already, and is no folder");
      return false;
    }
    folders_.insert(path);
    return true;
  }

  void make_link(const ShownEntry& entry) {
    const fs::path place = destination_ / entry.shown;
    if (!is_safe_link(entry.shown, entry.entry.target))
      return note(entry, "it is a link to " + printable(entry.entry.target) + ", outside of what comes");
    if (const auto info = about(place); info && S_ISLNK(info->st_mode)) ::unlink(place.c_str());
    if (::symlink(entry.entry.target.c_str(), place.c_str()) != 0) note(entry, std::strerror(errno));
  }

  bool is_there(const ShownEntry& entry) const {
    const std::optional<struct stat> info = about(destination_ / entry.shown);
    return info && S_ISREG(info->st_mode) && static_cast<std::uint64_t>(info->st_size) == entry.entry.size &&
           mtime_ns_of(*info) == entry.entry.mtime_ns;
  }

  WantedFile wanted(const ShownEntry& entry) const {
    const auto part = about(part_of(destination_ / entry.shown, entry.entry));
    const bool has_part =
        part && S_ISREG(part->st_mode) && static_cast<std::uint64_t>(part->st_size) <= entry.entry.size;
    return {entry.entry.path, has_part ? static_cast<std::uint64_t>(part->st_size) : 0};
  }

  void read(const std::vector<const ShownEntry*>& files) {
    std::vector<WantedFile> request;
    for (const ShownEntry* each : files) request.push_back(wanted(*each));
    std::size_t at = 0;
    std::unique_ptr<ArrivingFile> arriving;
    std::int64_t mtime_ns = 0;
    const FileSink sink{.begin =
                            [&](std::uint64_t size, std::int64_t time) {
                              FileEntry now = files[at]->entry;
                              const bool has_changed = size != now.size || time != now.mtime_ns;
                              now.size = size;
                              now.mtime_ns = mtime_ns = time;
                              // The bytes that are there already are of the earlier state.
                              if (has_changed && request[at].offset > 0) return;
                              arriving = std::make_unique<ArrivingFile>(destination_ / files[at]->shown, now);
                              if (arriving->offset() != request[at].offset) arriving->discard();
                            },
                        .bytes =
                            [&](std::string_view bytes) {
                              if (arriving) arriving->add(bytes);
                              out_.bytes += bytes.size();
                              progress_(out_);
                            },
                        .end =
                            [&](const std::string& sha256) {
                              if (arriving) {
                                arriving->finish(sha256, mtime_ns);
                                ++out_.files;
                              } else {
                                note(*files[at], "it changed while it came; pull it again");
                              }
                              arriving.reset();
                              ++at;
                            },
                        .failed =
                            [&](const std::string& reason) {
                              arriving.reset();
                              note(*files[at], reason);
                              ++at;
                            }};
    source_.read(request, sink);
  }

  FileSource& source_;
  const fs::path& destination_;
  const std::function<void(const Brought&)>& progress_;
  std::set<std::string> folders_;  // that are there, and are no links
  Brought out_;
};

}  // namespace

Brought bring(FileSource& source, const std::vector<ShownEntry>& entries, const fs::path& destination,
              const std::function<void(const Brought&)>& progress) {
  return Bringer(source, destination, progress).bring(entries);
}

}  // namespace mlk
