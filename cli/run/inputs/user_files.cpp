#include "cli/run/inputs/user_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>

#include "cli/image/open_file.h"
#include "cli/render/limits.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& name) { return name.string().starts_with("."); }

// Files that Python or Windows leave in the folders of users.
bool is_cache(const fs::path& name) {
  return name == "__pycache__" || name.extension() == ".pyc" || name.extension() == ".pyo" ||
         name == "Thumbs.db";
}

// The path after following all symbolic links; empty if it does not exist.
fs::path real_path(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? fs::path() : real;
}

// The relative path from `folder` down to `path`; empty if `path` is not below `folder`.
fs::path way_down(const fs::path& folder, const fs::path& path) {
  const fs::path way = path.lexically_relative(folder);
  return way.empty() || *way.begin() == ".." ? fs::path() : way;
}

class Reader {
 public:
  Reader(const UserFiles& files, std::string what)
      : given_(files.folder), folder_(real_path(given_.empty() ? "." : given_)), what_(std::move(what)) {
    for (const fs::path& path : files.allowed) {
      const fs::path real = real_path(path);
      if (real.empty()) {
        throw Error(ExitCode::not_found, "--allow-files: there is no " + path.string());
      }
      allowed_.push_back(real);
    }
  }

  std::map<std::string, std::string> read(const std::string& named) {
    const fs::path shown = given_ / named;
    check(shown);
    try {
      visit_folder(shown, [this](const fs::directory_entry& entry) { add(entry); });
    } catch (const Error& error) {
      if (error.code() != ExitCode::not_found) throw;
      throw Error(error.code(), what_ + ": " + error.what(), "files: is relative to the experiment file");
    }
    if (contents_.empty()) throw Error(ExitCode::usage, what_ + ": " + shown.string() + " is empty");
    return std::move(contents_);
  }

  fs::path folder(const std::string& named) const {
    const fs::path shown = given_ / named;
    check(shown);
    return shown;
  }

  std::string read_one(const std::string& named, std::size_t limit) const {
    const fs::path shown = given_ / named;
    check(shown);  // outside of `try`: its errors already name the file
    try {
      return read_checked(shown, limit);
    } catch (const Error& error) {
      throw Error(error.code(), what_ + ": " + error.what(),
                  fs::path(named).is_absolute() ? "" : "it is relative to the experiment file");
    }
  }

  std::string digest(const std::string& named) const {
    const fs::path shown = given_ / named;
    const Place place = check(shown);
    if (place.real.empty()) return "";
    std::error_code error;
    const bool plain = fs::is_regular_file(place.real, error);
    const std::uintmax_t size = plain ? fs::file_size(place.real, error) : 0;
    if (!plain || error) throw Error(ExitCode::usage, what_ + ": " + shown.string() + " is not a plain file");
    Sha256 sum;
    image::read_whole(place.real, size, [&](std::string_view part) { sum.add(part); });
    return sum.hex();
  }

 private:
  void add(const fs::directory_entry& entry) {
    const fs::path name = entry.path().filename();
    if (is_hidden(name) || is_cache(name)) return;
    check(entry.path());
    std::error_code error;
    const bool plain = entry.is_regular_file(error);
    const std::uintmax_t size = plain ? entry.file_size(error) : 0;
    if (!plain || error) {
      throw Error(ExitCode::usage, what_ + ": " + entry.path().string() + " is not a plain file",
                  "files: takes one flat folder; use a volume for more");
    }
    if (total_ + size > most_config_map_bytes) {
      throw Error(ExitCode::usage,
                  what_ + ": the files in " + entry.path().parent_path().string() + " are more than " +
                      std::to_string(most_config_map_bytes / 1024) + " KiB",
                  "files: is for small data sets; put larger ones on a volume (pvc, nfs)");
    }
    std::string bytes = read_checked(entry.path(), most_config_map_bytes);
    total_ += bytes.size();
    contents_.emplace(name.string(), std::move(bytes));
  }

  // `real`: the real path of a file. `below`: the allowed folder that contains the file. The part of `real`
  // that follows `below` has no links.
  struct Place {
    fs::path real, below;
  };

  // Reads exactly the file that was checked, and not a file that replaces it a moment later: no part of its
  // path may have become a link.
  std::string read_checked(const fs::path& path, std::size_t limit) const {
    const Place place = check(path);
    if (place.real.empty()) return read_file(path, limit);  // read_file() throws the reason
    if (place.real == place.below) return read_file(place.real, limit);
    const std::string way = place.real.lexically_relative(place.below).generic_string();
    image::WayDown down(place.below);
    const image::OpenFile file(down.folder_of(way), image::name_of_path(way),
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat status{};
    if (file.number() < 0 || ::fstat(file.number(), &status) != 0) image::fail_with(path, errno);
    if (S_ISDIR(status.st_mode)) throw Error(ExitCode::usage, path.string() + " is a folder, not a file");
    if (!S_ISREG(status.st_mode)) throw Error(ExitCode::usage, path.string() + " is not a plain file");
    return read_descriptor(file.number(), path.string(), limit);
  }

  Place check(const fs::path& path) const {
    const fs::path real = real_path(path);
    if (real.empty()) return {};  // the attempt to open it reports the reason
    const auto covers = [&](const fs::path& allowed) { return !way_down(allowed, real).empty(); };
    const auto allowed = std::find_if(allowed_.begin(), allowed_.end(), covers);
    if (allowed != allowed_.end()) return {real, *allowed};
    const fs::path way = way_down(folder_, real);
    const bool hidden = std::any_of(way.begin(), way.end(),
                                    [](const fs::path& part) { return part != "." && is_hidden(part); });
    if (!way.empty() && !hidden) return {real, folder_};
    throw Error(
        ExitCode::usage,
        what_ + ": " + path.string() +
            (hidden ? " is hidden" : " leads out of the experiment file's folder, to " + real.string()),
        "if it may go to the cluster: --allow-files " + real.string());
  }

  const fs::path given_, folder_;  // as written, and the real path
  const std::string what_;
  std::vector<fs::path> allowed_;
  std::map<std::string, std::string> contents_;
  std::size_t total_ = 0;
};

}  // namespace

std::map<std::string, std::string> read_user_folder(const UserFiles& files, const std::string& named,
                                                    const std::string& what) {
  return Reader(files, what).read(named);
}

fs::path user_folder(const UserFiles& files, const std::string& named, const std::string& what) {
  return Reader(files, what).folder(named);
}

std::string read_user_file(const UserFiles& files, const std::string& named, const std::string& what,
                           std::size_t limit) {
  return Reader(files, what).read_one(named, limit);
}

std::string digest_of_user_file(const UserFiles& files, const std::string& named, const std::string& what) {
  return Reader(files, what).digest(named);
}

}  // namespace mlk
