// Checks how unpack() writes the files of archives to the disk.
#include "cli/image/unpack.h"

#include <doctest/doctest.h>

#include "cli/image/tar.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("image/unpack");

namespace {
namespace fs = std::filesystem;
using mlk::image::write_new_file;
}  // namespace

TEST_CASE("write_new_file() writes content and executable bit, and makes the folders above the file") {
  const TemporaryFolder folder;
  const std::string large(3 << 20, 'x');
  write_new_file(folder.path() / "a/b/plain", large);
  write_new_file(folder.path() / "a/b/program", "", true);
  CHECK(mlk::read_file(folder.path() / "a/b/plain", large.size()) == large);
  CHECK(fs::file_size(folder.path() / "a/b/program") == 0);
  const auto may_be_executed = [&](const char* name) {
    return (fs::status(folder.path() / "a/b" / name).permissions() & fs::perms::owner_exec) !=
           fs::perms::none;
  };
  CHECK_FALSE(may_be_executed("plain"));
  CHECK(may_be_executed("program"));
}

TEST_CASE("write_new_file() refuses a path that exists, is a link, or is below a file") {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", "before");
  fs::create_symlink("target", folder.path() / "dangling");
  fs::create_symlink("file", folder.path() / "link");
  for (const char* name : {"file", "dangling", "link"}) {
    const std::string wanted = "cannot write " + (folder.path() / name).string() + ": File exists";
    CHECK_THROWS_WITH_AS(write_new_file(folder.path() / name, "x"), wanted.c_str(), mlk::Error);
  }
  CHECK_THROWS_AS(write_new_file(folder.path() / "file/x", "x"), mlk::Error);
  CHECK(mlk::read_file(file, 100) == "before");
  CHECK_FALSE(fs::exists(folder.path() / "target"));
}

TEST_CASE(
    "unpack() makes all entries of an archive and their parent folders, but replaces no existing file") {
  const TemporaryFolder folder;
  using Kind = mlk::image::TarEntry::Kind;
  std::string tar;
  mlk::image::append_to_tar(tar, {.path = "a/b/f"}, "text");
  mlk::image::append_to_tar(tar, {.path = "c/l", .kind = Kind::link, .target = "../a"}, "");
  mlk::image::append_to_tar(tar, {.path = "empty/e", .kind = Kind::folder}, "");
  tar += mlk::image::tar_end();
  mlk::image::unpack(tar, folder.path());
  CHECK(mlk::read_file(folder.path() / "a/b/f", 10) == "text");
  CHECK((fs::status(folder.path() / "a/b/f").permissions() & fs::perms::owner_exec) == fs::perms::none);
  CHECK(fs::read_symlink(folder.path() / "c/l") == "../a");
  CHECK(fs::is_directory(folder.path() / "empty/e"));
  std::string link;
  mlk::image::append_to_tar(link, {.path = "c/l", .kind = Kind::link, .target = "x"}, "");
  link += mlk::image::tar_end();
  CHECK_THROWS_WITH_AS(mlk::image::unpack(link, folder.path()), doctest::Contains("c/l: File exists"),
                       mlk::Error);
  std::string below;
  mlk::image::append_to_tar(below, {.path = "a/b/f/x", .kind = Kind::folder}, "");
  below += mlk::image::tar_end();
  CHECK_THROWS_WITH_AS(mlk::image::unpack(below, folder.path()), doctest::Contains("cannot write "),
                       mlk::Error);
}
