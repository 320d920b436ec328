// Files that are read as memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mlk::rt {

// A file that is mapped into memory. The kernel reads the parts that are needed, so data sets of any size
// fit. If the file is truncated while it is in use, the process ends.
class MappedFile {
 public:
  // Throws Failure{bad_data} that names the file.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::uint8_t> bytes() const { return bytes_; }

 private:
  std::string path_;
  std::span<const std::uint8_t> bytes_;
};

// The paths of the files in `folder` that are called *word*.bin, sorted by name. There is at least one.
// Throws Failure{bad_data} that names the folder.
std::vector<std::string> bin_files(const std::string& folder, const std::string& word);

// Throws Failure{bad_data}: "path: what".
[[noreturn]] void refuse_data(const std::string& path, const std::string& what);

}  // namespace mlk::rt
