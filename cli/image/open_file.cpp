#include "cli/image/open_file.h"

#include <cerrno>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk::image {

namespace fs = std::filesystem;

OpenFile::OpenFile(const fs::path& path, int flags) : number_(open(path.c_str(), flags | O_CLOEXEC, 0600)) {}

OpenFile::~OpenFile() {
  if (number_ >= 0) close(number_);
}

void fail_with(const fs::path& path, int error) {
  throw Error(ExitCode::failure,
              fmt::format("{}: {}", printable(path.string()), std::generic_category().message(error)));
}

void read_whole(const fs::path& path, std::uint64_t size, const std::function<void(std::string_view)>& take) {
  // Nobody may put a link or a pipe in the place of the file meanwhile.
  const OpenFile file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat now{};
  if (file.number() < 0 || fstat(file.number(), &now) != 0) fail_with(path, errno);
  constexpr std::size_t read_bytes = 256 << 10;
  std::string buffer(read_bytes, '\0');
  std::uint64_t have = 0;
  bool same = S_ISREG(now.st_mode);
  while (same) {
    const ssize_t count = read(file.number(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with(path, errno);
    if (count == 0) break;
    have += static_cast<std::uint64_t>(count);
    same = have <= size;
    if (same) take({buffer.data(), static_cast<std::size_t>(count)});
  }
  if (!same || have != size)
    throw Error(ExitCode::failure, fmt::format("{} changes while it is read", printable(path.string())),
                "type the command again when nothing writes there, or leave it out with exclude:");
}

}  // namespace mlk::image
