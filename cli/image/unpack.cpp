#include "cli/image/unpack.h"

#include <fcntl.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/image/tar.h"
#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk::image {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::error_code& error) {
  throw Error(ExitCode::failure,
              fmt::format("cannot write {}: {}", printable(path.string()), error.message()));
}

}  // namespace

void write_new_file(const fs::path& path, std::string_view content, bool executable) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) fail(path, error);
  const int file =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, executable ? 0777 : 0666);
  if (file < 0) error.assign(errno, std::generic_category());
  while (!error && !content.empty()) {
    const ssize_t count = write(file, content.data(), content.size());
    if (count > 0) content.remove_prefix(static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR) error.assign(errno, std::generic_category());
  }
  if (file >= 0 && close(file) != 0 && !error) error.assign(errno, std::generic_category());
  if (error) fail(path, error);
}

void unpack(std::string_view tar, const fs::path& folder, const std::function<void()>& before_each) {
  for (const TarFile& file : read_tar(tar, before_each)) {
    if (before_each) before_each();
    const fs::path path = folder / file.entry.path;
    std::error_code error;
    fs::create_directories(file.entry.kind == TarEntry::Kind::folder ? path : path.parent_path(), error);
    if (error) fail(path, error);
    if (file.entry.kind == TarEntry::Kind::file) write_new_file(path, file.content, file.entry.executable);
    if (file.entry.kind == TarEntry::Kind::link) fs::create_symlink(file.entry.target, path, error);
    if (error) fail(path, error);
  }
}

}  // namespace mlk::image
