#include "runtime/data/mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "runtime/base/exit_code.h"

namespace mlk::rt {

namespace fs = std::filesystem;

void refuse_data(const std::string& path, const std::string& what) {
  throw Failure(ExitCode::bad_data, path + ": " + what);
}

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) refuse_data(path_, std::strerror(errno));
  struct stat info{};
  void* place = MAP_FAILED;
  const bool regular = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  const auto size = static_cast<std::size_t>(info.st_size);
  if (regular && size > 0) place = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  close(file);
  if (!regular) refuse_data(path_, "not a regular file");
  if (size == 0) refuse_data(path_, "is empty");
  if (place == MAP_FAILED) refuse_data(path_, std::strerror(error));
  bytes_ = {static_cast<const std::uint8_t*>(place), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

std::vector<std::string> bin_files(const std::string& folder, const std::string& word) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    if (path.extension() == ".bin" && path.filename().string().find(word) != std::string::npos)
      paths.push_back(path.string());
  }
  if (error) refuse_data(folder, error.message());
  if (paths.empty()) refuse_data(folder, "no file there is called *" + word + "*.bin");
  std::ranges::sort(paths);
  return paths;
}

}  // namespace mlk::rt
