#include "cli/files/arriving_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk {

std::filesystem::path part_of(const std::filesystem::path& place, const FileEntry& entry) {
  constexpr std::size_t digits = 16;
  const std::string about = fmt::format("{}\n{}\n{}", place.filename().string(), entry.size, entry.mtime_ns);
  return place.parent_path() / (".mlk-" + sha256_hex(about).substr(0, digits) + ".part");
}

ArrivingFile::ArrivingFile(std::filesystem::path place, const FileEntry& entry)
    : place_(std::move(place)), part_(part_of(place_, entry)), mode_(entry.mode & 0777) {
  file_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file_ < 0) fail("make");
  std::string bytes(1 << 20, '\0');
  while (true) {
    const ssize_t came = ::read(file_, bytes.data(), bytes.size());
    if (came < 0 && errno == EINTR) continue;
    if (came < 0) fail("read");
    if (came == 0) break;
    hash_.add(std::string_view(bytes).substr(0, static_cast<std::size_t>(came)));
    offset_ += static_cast<std::uint64_t>(came);
  }
  if (offset_ <= entry.size) return;
  discard();
}

ArrivingFile::~ArrivingFile() {
  if (file_ >= 0) ::close(file_);
}

void ArrivingFile::fail(const std::string& what) const {
  const int error = errno;
  throw Error(ExitCode::failure,
              fmt::format("cannot {} {}: {}", what, printable(place_.string()), std::strerror(error)));
}

void ArrivingFile::discard() {
  if (::ftruncate(file_, 0) != 0 || ::lseek(file_, 0, SEEK_SET) != 0) fail("write");
  hash_ = Sha256();
  offset_ = 0;
}

void ArrivingFile::add(std::string_view bytes) {
  hash_.add(bytes);
  offset_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void ArrivingFile::finish(const std::string& sha256, std::int64_t mtime_ns) {
  if (hash_.hex() != sha256) {
    ::unlink(part_.c_str());
    throw Error(ExitCode::failure, printable(place_.string()) + " has not come as it is: its digest differs",
                "pull it again");
  }
  constexpr std::int64_t second = 1'000'000'000;
  const timespec time{.tv_sec = static_cast<time_t>(mtime_ns / second),
                      .tv_nsec = static_cast<long>(mtime_ns % second)};
  const timespec times[2] = {time, time};
  if (::fchmod(file_, mode_) != 0 || ::futimens(file_, times) != 0) fail("set the mode and the time of");
  const int closed = ::close(file_);
  file_ = -1;
  if (closed != 0) fail("write");
  if (::rename(part_.c_str(), place_.c_str()) != 0) fail("write");
}

}  // namespace mlk
