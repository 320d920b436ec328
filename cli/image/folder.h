// Folders and files of the code that travels, as the system knows them. For folders of ten thousand files,
// where std::filesystem takes most of the time.
#pragma once

#include <cstdint>
#include <deque>
#include <dirent.h>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

namespace mlk::image {

struct NamedEntry {
  enum class Kind { file, folder, link, other };
  std::string name;
  Kind kind = Kind::other;
};

// What changes when somebody writes to a file. Nanoseconds since 1970.
struct Stamp {
  std::int64_t modified = 0;  // programs may set it to any time
  std::int64_t changed = 0;   // only the system sets it
  std::uint64_t inode = 0;
};

struct FileStatus {
  std::uint64_t size = 0;
  bool executable = false;
  Stamp stamp;
};

enum class Links { are_followed, are_refused };

struct Folder {
  std::shared_ptr<DIR> open;
  std::vector<NamedEntry> entries;  // in no order
};

// `links`: whether the path itself may be one. Throws Error: not_found if there is no such folder, failure if
// it cannot be read.
Folder read_folder(const std::filesystem::path& folder, Links links);

// Asks for the status of files in other threads, while more files are being found.
class Statuses {
 public:
  // The folder stays open until there is an answer. `path`: for errors.
  void ask(const Folder& folder, const std::string& path, std::vector<std::string> files);
  // In the order of asking. Throws Error{failure} if one is no file any more.
  std::vector<FileStatus> answers();

 private:
  struct Question {
    std::shared_ptr<DIR> folder;
    std::string path;
    std::vector<std::string> files;
  };
  static std::vector<FileStatus> answer(const std::vector<Question>& questions);
  void begin_batch();
  void end_batch();

  std::vector<Question> batch_;
  std::size_t files_in_batch_ = 0;
  std::deque<std::future<std::vector<FileStatus>>> asked_;
  std::vector<FileStatus> answers_;
};

}  // namespace mlk::image
