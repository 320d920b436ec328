#include "cli/image/open_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk::image {

namespace fs = std::filesystem;

OpenFile::OpenFile(const fs::path& path, int flags, mode_t mode)
    : number_(open(path.c_str(), flags | O_CLOEXEC, mode)) {}

OpenFile::OpenFile(const OpenFile& folder, const std::string& path, int flags)
    : number_(openat(folder.number(), path.c_str(), flags | O_CLOEXEC, 0600)) {}

OpenFile::~OpenFile() {
  if (number_ >= 0) close(number_);
}

void fail_with(const fs::path& path, int error) {
  throw Error(ExitCode::failure,
              fmt::format("{}: {}", printable(path.string()), std::generic_category().message(error)));
}

namespace {

// Another program may have replaced the file by a link or a pipe. With these flags, open() refuses a link
// and does not wait for a writer of the pipe.
constexpr int flags_to_read = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;

std::size_t read_some(const OpenFile& file, const std::string& path, char* to, std::size_t most) {
  while (true) {
    const ssize_t count = read(file.number(), to, most);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) fail_with(path, errno);
  }
}

[[noreturn]] void refuse_changing(const std::string& path) {
  throw Error(ExitCode::failure, fmt::format("{} changes while it is read", printable(path)),
              "type the command again when nothing writes there, or leave it out with exclude:");
}

void read_open(const OpenFile& file, const fs::path& shown, std::uint64_t size,
               const std::function<void(std::string_view)>& take) {
  if (file.number() < 0) fail_with(shown, errno);
  constexpr std::uint64_t most_read_bytes = 256 << 10;
  std::string buffer(std::min(size + 1, most_read_bytes), '\0');
  std::uint64_t have = 0;
  while (const std::size_t count = read_some(file, shown.native(), buffer.data(), buffer.size())) {
    have += count;
    if (have > size) refuse_changing(shown.native());
    take({buffer.data(), count});
  }
  if (have != size) refuse_changing(shown.native());
}

}  // namespace

WayDown::WayDown(const fs::path& top) : shown_(top), top_(top, O_RDONLY | O_DIRECTORY) {
  if (top_.number() < 0) fail_with(top, errno);
}

const OpenFile& WayDown::folder_of(const std::string& path) {
  std::size_t depth = 0;
  for (std::size_t begin = 0, end = 0; (end = path.find('/', begin)) != path.npos; begin = end + 1) {
    const std::string_view part = std::string_view(path).substr(begin, end - begin);
    if (part.empty()) continue;
    if (depth < open_.size() && open_[depth].first == part) {
      ++depth;
      continue;
    }
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(depth), open_.end());
    const OpenFile& above = depth == 0 ? top_ : *open_[depth - 1].second;
    auto next = std::make_unique<OpenFile>(above, std::string(part), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (next->number() < 0) fail_with(shown_ / path.substr(0, end), errno);
    open_.emplace_back(part, std::move(next));
    ++depth;
  }
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(depth), open_.end());
  return depth == 0 ? top_ : *open_[depth - 1].second;
}

std::string name_of_path(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void read_whole(const fs::path& path, std::uint64_t size, const std::function<void(std::string_view)>& take) {
  read_open(OpenFile(path, flags_to_read), path, size, take);
}

void read_whole(const OpenFile& folder, const fs::path& path, std::uint64_t size,
                const std::function<void(std::string_view)>& take) {
  read_open(OpenFile(folder, path.filename().string(), flags_to_read), path, size, take);
}

void read_whole(const OpenFile& folder, const std::string& path, std::uint64_t size, char* to) {
  const OpenFile file(folder, name_of_path(path), flags_to_read);
  if (file.number() < 0) fail_with(path, errno);
  std::uint64_t have = 0;
  while (true) {
    const std::size_t asked = size + 1 - have, count = read_some(file, path, to + have, asked);
    have += count;
    // A read that returns fewer bytes than requested has reached the end of the file.
    if (count == 0 || have > size || (have == size && count < asked)) break;
  }
  if (have != size) refuse_changing(path);
}

void write_whole(const OpenFile& file, const fs::path& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(file.number(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with(path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace mlk::image
