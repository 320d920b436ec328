// Files that users name: devices, pipes, links, modes, and unfinished files.
#include "cli/util/output_file.h"

#include <fcntl.h>
#include <future>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "cli/util/files.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("util/output_file");

namespace {

namespace fs = std::filesystem;
using mlk::Goal;
using mlk::way_to_write;
using mlk::write_user_file;
using mlk::WriteWay;

mode_t mode_of(const fs::path& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

std::size_t entries_of(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

struct Umask {
  explicit Umask(mode_t mode) : before(::umask(mode)) {}
  ~Umask() { ::umask(before); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;
  const mode_t before;
};

}  // namespace

TEST_CASE("way_to_write() allows replacement only for the user's plain files that have no second link") {
  CHECK(way_to_write(std::nullopt) == WriteWay::as_new);
  CHECK(way_to_write(Goal{S_IFREG | 0644, 1, true}) == WriteWay::replaced);
  CHECK(way_to_write(Goal{S_IFREG | 0644, 2, true}) == WriteWay::in_place);
  CHECK(way_to_write(Goal{S_IFREG | 0644, 1, false}) == WriteWay::in_place);
  CHECK(way_to_write(Goal{S_IFIFO | 0644, 1, true}) == WriteWay::in_place);
  CHECK(way_to_write(Goal{S_IFCHR | 0644, 1, true}) == WriteWay::in_place);
  CHECK(way_to_write(Goal{S_IFBLK | 0644, 1, true}) == WriteWay::in_place);
  CHECK(way_to_write(Goal{S_IFSOCK | 0644, 1, true}) == WriteWay::in_place);
  CHECK(way_to_write(Goal{S_IFDIR | 0755, 1, true}) == WriteWay::refused);
}

TEST_CASE("write_user_file() keeps the mode of an existing file, and obeys the umask for a new file") {
  const TemporaryFolder folder;
  const Umask narrow(077);
  write_user_file(folder.path() / "new", "x");
  CHECK(mode_of(folder.path() / "new") == 0600);
  folder.write("old", "x");
  fs::permissions(folder.path() / "old", fs::perms(0664));
  write_user_file(folder.path() / "old", "y");
  CHECK(mode_of(folder.path() / "old") == 0664);
  CHECK(mlk::read_file(folder.path() / "old", 9) == "y");
  ::umask(022);
  write_user_file(folder.path() / "wide", "x");
  CHECK(mode_of(folder.path() / "wide") == 0644);
  CHECK(entries_of(folder.path()) == 3);
}

TEST_CASE("write_user_file() follows a link even if the target does not exist yet") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "sub");
  folder.write("sub/file", "old");
  fs::create_symlink("sub/file", folder.path() / "link");
  fs::create_symlink("link", folder.path() / "to-link");
  fs::create_symlink("sub/later", folder.path() / "early");
  write_user_file(folder.path() / "to-link", "new");
  write_user_file(folder.path() / "early", "made");
  CHECK(fs::is_symlink(folder.path() / "link"));
  CHECK(fs::is_symlink(folder.path() / "to-link"));
  CHECK(fs::is_symlink(folder.path() / "early"));
  CHECK(mlk::read_file(folder.path() / "sub/file", 9) == "new");
  CHECK(mlk::read_file(folder.path() / "sub/later", 9) == "made");
  CHECK(entries_of(folder.path() / "sub") == 2);
}

TEST_CASE("write_user_file() writes a pipe or a device in place") {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "p";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::future<std::string> got = std::async(std::launch::async, [&] { return mlk::read_file(pipe, 99); });
  write_user_file(pipe, "through");
  CHECK(got.get() == "through");
  CHECK(fs::is_fifo(pipe));
  write_user_file("/dev/null", "nowhere");
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("write_user_file() writes a file with two hard links in place, and refuses a folder") {
  const TemporaryFolder folder;
  folder.write("one", "long before");
  fs::create_hard_link(folder.path() / "one", folder.path() / "two");
  write_user_file(folder.path() / "two", "after");
  CHECK(mlk::read_file(folder.path() / "one", 99) == "after");
  CHECK_THROWS_WITH_AS(write_user_file(folder.path(), "x"), doctest::Contains("is a folder, not a file"),
                       mlk::Error);
  CHECK_THROWS_WITH_AS(write_user_file(folder.path() / "none/x", "x"), doctest::Contains("cannot write"),
                       mlk::Error);
}

TEST_CASE("OutputFile leaves the old file unchanged if finish() is not called") {
  const TemporaryFolder folder;
  folder.write("old", "before");
  {
    mlk::OutputFile file(folder.path() / "old");
    file.put("half");
    mlk::OutputFile other(folder.path() / "new");
    other.put("half");
  }
  CHECK(mlk::read_file(folder.path() / "old", 99) == "before");
  CHECK(entries_of(folder.path()) == 1);
}

TEST_CASE("write_user_file() appends to an open file through its path in /dev/fd") {
  const TemporaryFolder folder;
  const fs::path file = folder.write("log", "before\n");
  const int fd = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  write_user_file("/dev/fd/" + std::to_string(fd), "after\n");
  ::close(fd);
  CHECK(mlk::read_file(file, 99) == "before\nafter\n");
}
