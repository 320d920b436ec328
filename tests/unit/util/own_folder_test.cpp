// Folders whose files mlk trusts.
#include "cli/util/own_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("util/own_folder");

namespace {

namespace fs = std::filesystem;
using mlk::is_own;

struct stat status_of_mode(mode_t mode, uid_t owner) {
  struct stat out{};
  out.st_mode = mode;
  out.st_uid = owner;
  return out;
}

}  // namespace

TEST_CASE("is_own() is false for a file that another user owns or may write to") {
  const uid_t me = ::geteuid();
  CHECK(is_own(status_of_mode(S_IFREG | 0600, me)));
  CHECK(is_own(status_of_mode(S_IFREG | 0755, me)));
  CHECK_FALSE(is_own(status_of_mode(S_IFREG | 0620, me)));
  CHECK_FALSE(is_own(status_of_mode(S_IFREG | 0602, me)));
  CHECK_FALSE(is_own(status_of_mode(S_IFREG | 0600, me + 1)));
}

TEST_CASE("make_own_folder() closes new and existing folders to other users") {
  const TemporaryFolder folder;
  const fs::path made = folder.path() / "a/b";
  mlk::make_own_folder(made, "hint");
  CHECK(fs::status(made).permissions() == fs::perms::owner_all);
  fs::permissions(made, fs::perms::all);
  CHECK_FALSE(is_own(made));
  mlk::make_own_folder(made, "hint");
  CHECK(fs::status(made).permissions() == fs::perms::owner_all);
  CHECK(is_own(made));
}

TEST_CASE("make_own_folder() refuses links and plain files") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "real");
  fs::create_directory_symlink("real", folder.path() / "link");
  folder.write("file", "");
  CHECK_THROWS_AS(mlk::make_own_folder(folder.path() / "link", "hint"), mlk::Error);
  CHECK_THROWS_AS(mlk::require_own_folder(folder.path() / "link", "hint"), mlk::Error);
  CHECK_THROWS_AS(mlk::make_own_folder(folder.path() / "file", "hint"), mlk::Error);
  CHECK_NOTHROW(mlk::require_own_folder(folder.path() / "none/below", "hint"));
  CHECK_FALSE(is_own(folder.path() / "none"));
  CHECK_FALSE(is_own(folder.path() / "link"));
  if (::geteuid() != 0) return;
  REQUIRE(::chown((folder.path() / "real").c_str(), 65534, 65534) == 0);
  CHECK_THROWS_WITH_AS(mlk::make_own_folder(folder.path() / "real", "hint"),
                       doctest::Contains("belongs to another user"), mlk::Error);
  CHECK_THROWS_AS(mlk::require_own_folder(folder.path() / "real", "hint"), mlk::Error);
}
