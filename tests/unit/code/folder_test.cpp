// Checks what mlk reads from a folder of code, and the errors for paths that are no folder.
#include "cli/code/folder.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "cli/code/tree.h"
#include "cli/util/error.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("code/folder");

namespace {

namespace fs = std::filesystem;
using mlk::ExitCode;
using mlk::image::NamedEntry;
using mlk::image::read_folder;

template <class Action>
ExitCode code_of(const Action& action) {
  try {
    action();
  } catch (const mlk::Error& error) {
    return error.code();
  }
  return ExitCode::ok;
}

}  // namespace

TEST_CASE("read_folder() lists the names in a folder and the kind of each") {
  const TemporaryFolder folder;
  folder.write("file", "x");
  fs::create_directory(folder.path() / "below");
  fs::create_symlink("file", folder.path() / "link");
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  std::vector<NamedEntry> entries = read_folder(folder.path(), "").entries;
  std::sort(entries.begin(), entries.end(),
            [](const NamedEntry& a, const NamedEntry& b) { return a.name < b.name; });
  std::string text;
  for (const NamedEntry& each : entries) {
    const char* kind = each.kind == NamedEntry::Kind::file     ? "file"
                       : each.kind == NamedEntry::Kind::folder ? "folder"
                       : each.kind == NamedEntry::Kind::link   ? "link"
                                                               : "other";
    text += each.name + ":" + kind + " ";
  }
  CHECK(text == "below:folder file:file link:link pipe:other ");
}

TEST_CASE("read_folder() refuses a missing path, a file, and a path through a link") {
  const TemporaryFolder folder;
  folder.write("file", "x");
  folder.write("real/below/x", "x");
  fs::create_symlink("real", folder.path() / "link");
  fs::create_symlink("turns", folder.path() / "turns");
  const auto code = [&](const fs::path& top, const std::string& path) {
    return code_of([&] { (void)read_folder(top, path); });
  };
  CHECK(code(folder.path() / "absent", "") == ExitCode::not_found);
  CHECK(code(folder.path() / "file", "") == ExitCode::not_found);
  CHECK(code(folder.path() / "turns", "") == ExitCode::not_found);
  CHECK(code(folder.path(), "absent/") == ExitCode::not_found);
  CHECK(code(folder.path(), "file/") == ExitCode::not_found);
  CHECK(code(folder.path(), "link/") == ExitCode::not_found);
  CHECK(code(folder.path(), "link/below/") ==
        ExitCode::failure);  // as if a link replaces the folder meanwhile
  CHECK(code(folder.path(), "real/below/") == ExitCode::ok);
  CHECK(code(folder.path() / "link", "") == ExitCode::ok);  // the top itself may be a link
}

TEST_CASE(
    "link_target(), status_of() and beginning_of() read the current state of a path in an open folder") {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", "12345");
  fs::create_symlink("../elsewhere", folder.path() / "link");
  const mlk::image::Folder open = read_folder(folder.path(), "");
  CHECK(mlk::image::link_target(*open.open, folder.path(), "link") == "../elsewhere");
  CHECK(code_of([&] { (void)mlk::image::link_target(*open.open, folder.path(), "file"); }) ==
        ExitCode::failure);
  const mlk::image::FileStatus plain = mlk::image::status_of(*open.open, folder.path(), "file");
  CHECK(plain.size == 5);
  CHECK_FALSE(plain.executable);
  fs::permissions(file, fs::perms::owner_all);
  CHECK(mlk::image::status_of(*open.open, folder.path(), "file").executable);
  for (const char* name : {"link", "absent"})
    CHECK(code_of([&] { (void)mlk::image::status_of(*open.open, folder.path(), name); }) ==
          ExitCode::failure);
  CHECK(mlk::image::beginning_of(*open.open, "file", 3) == "123");
  CHECK(mlk::image::beginning_of(*open.open, "file", 99) == "12345");
  CHECK(mlk::image::beginning_of(*open.open, "absent", 3).empty());
  CHECK(mlk::image::beginning_of(*open.open, "link", 3).empty());
}

TEST_CASE("list_tree() reads the size of each file, also if several threads share one large folder") {
  const TemporaryFolder folder;
  for (const int count : {500, 501, 1001}) {
    const std::string name = "many" + std::to_string(count);
    for (int i = 0; i < count; ++i) folder.write(name + "/f" + std::to_string(i), "12345");
    const mlk::image::Tree tree = mlk::image::list_tree(folder.path() / name, {});
    CHECK(tree.entries.size() == static_cast<std::size_t>(count));
    CHECK(std::all_of(tree.entries.begin(), tree.entries.end(),
                      [](const mlk::image::TreeEntry& each) { return each.size == 5; }));
  }
}

TEST_CASE("status_of() gives times in nanoseconds, and the executable bit of the owner") {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", "x");
  const timespec times[] = {{0, 0}, {1'700'000'001, 23'000'045}};
  REQUIRE(::utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
  struct stat status{};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  const mlk::image::Folder open = read_folder(folder.path(), "");
  const mlk::image::FileStatus told = mlk::image::status_of(*open.open, folder.path(), "file");
  CHECK(told.stamp.modified == std::int64_t{1'700'000'001} * 1'000'000'000 + status.st_mtim.tv_nsec);
  CHECK(told.stamp.changed == std::int64_t{status.st_ctim.tv_sec} * 1'000'000'000 + status.st_ctim.tv_nsec);
  CHECK(told.stamp.inode == status.st_ino);
  for (const auto& [bits, executable] :
       std::vector<std::pair<unsigned, bool>>{{0700, true}, {0500, true}, {0677, false}, {0611, false}}) {
    REQUIRE(::chmod(file.c_str(), bits) == 0);
    CHECK(mlk::image::status_of(*open.open, folder.path(), "file").executable == executable);
  }
}

TEST_CASE("link_target() reads a target of 4095 bytes, and status_of() refuses folders and pipes") {
  const TemporaryFolder folder;
  const std::string longest(4095, 't');
  fs::create_symlink(longest, folder.path() / "link");
  folder.write("below/x", "x");
  folder.write("file", "12345");
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  const mlk::image::Folder open = read_folder(folder.path(), "");
  CHECK(mlk::image::link_target(*open.open, folder.path(), "link") == longest);
  CHECK(code_of([&] { (void)mlk::image::link_target(*open.open, folder.path(), "absent"); }) ==
        ExitCode::failure);
  for (const char* name : {"below", "pipe"}) {
    CHECK(code_of([&] { (void)mlk::image::status_of(*open.open, folder.path(), name); }) ==
          ExitCode::failure);
    CHECK(mlk::image::beginning_of(*open.open, name, 5).empty());
  }
  CHECK(mlk::image::beginning_of(*open.open, "file", 5) == "12345");
  CHECK(mlk::image::beginning_of(*open.open, "file", 0).empty());
  const mlk::image::Folder below = read_folder(folder.path(), "below/");
  CHECK(mlk::image::status_of(*below.open, folder.path(), "below/x").size == 1);
  try {
    (void)mlk::image::status_of(*below.open, folder.path(), "below/gone");
    FAIL("it is there");
  } catch (const mlk::Error& error) {
    CHECK(std::string(error.what()) ==
          "code: " + (folder.path() / "below/gone").string() + ": No such file or directory");
  }
}

TEST_CASE("the error of read_folder() names a folder that is missing or that cannot be read") {
  const TemporaryFolder folder;
  const fs::path top = folder.path() / std::string(300, 'n');
  try {
    (void)read_folder(top, "");
    FAIL("it was read");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == ExitCode::failure);
    CHECK(std::string(error.what()) ==
          "code: cannot read the folder " + top.string() + ": File name too long");
  }
  try {
    (void)read_folder(folder.path() / "absent", "");
    FAIL("it was read");
  } catch (const mlk::Error& error) {
    CHECK(std::string(error.what()) == "there is no folder " + (folder.path() / "absent").string());
  }
}
