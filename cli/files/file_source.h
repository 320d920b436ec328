// Where the files of a run come from: a folder of this machine, or a folder that a pod sees.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlk {

struct FileEntry {
  enum class Kind { file, folder, link };
  Kind kind = Kind::file;
  std::string path;           // below the folder of the source, with '/'
  unsigned mode = 0;          // permissions
  std::uint64_t size = 0;     // of a file
  std::int64_t mtime_ns = 0;  // since 1970
  std::string target{};       // of a link
};

struct WantedFile {
  std::string path;
  std::uint64_t offset = 0;  // the bytes before it are there already
};

// Gets the wanted files in their order. For each file either all three of begin(), bytes() and end(), or
// failed() at any place. All may throw; read() passes the exception on.
struct FileSink {
  std::function<void(std::uint64_t size, std::int64_t mtime_ns)> begin;
  std::function<void(std::string_view)> bytes;         // from the offset on
  std::function<void(const std::string& sha256)> end;  // of the whole file, hexadecimal
  std::function<void(const std::string& reason)> failed;
};

// For one thread. Paths of a source are not to be trusted.
class FileSource {
 public:
  FileSource() = default;
  virtual ~FileSource() = default;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  struct Listing {
    bool is_there = false;  // the folder itself
    std::vector<FileEntry> entries;
    std::vector<std::string> problems;  // folders that cannot be read, for people
  };
  virtual Listing list() = 0;
  virtual void read(const std::vector<WantedFile>& wanted, const FileSink& sink) = 0;
};

}  // namespace mlk
