// Checks how long mlk remembers the images that this machine has pushed.
#include "cli/image/pushed.h"

#include <doctest/doctest.h>

#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("image/pushed");

TEST_CASE("an image counts as just pushed for one hour, and the next push after this hour removes its note") {
  const TemporaryFolder folder;
  const std::string one = "sha256:" + std::string(64, 'a'), other = "sha256:" + std::string(64, 'b');
  CHECK_FALSE(mlk::image::is_just_pushed(folder.path(), one));
  mlk::image::note_pushed(folder.path(), one);
  CHECK(mlk::image::is_just_pushed(folder.path(), one));
  CHECK_FALSE(mlk::image::is_just_pushed(folder.path(), other));
  const std::filesystem::path note = folder.path() / "pushed" / one;
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(note, now - std::chrono::minutes(59));
  CHECK(mlk::image::is_just_pushed(folder.path(), one));
  std::filesystem::last_write_time(note, now - std::chrono::minutes(61));
  CHECK_FALSE(mlk::image::is_just_pushed(folder.path(), one));
  mlk::image::note_pushed(folder.path(), other);
  CHECK_FALSE(std::filesystem::exists(note));
  mlk::image::note_pushed(folder.path(), "../x");
  CHECK_FALSE(std::filesystem::exists(folder.path() / "x"));
}

TEST_CASE("note_pushed() removes no note of the last hour, and no note with a time in the future") {
  const TemporaryFolder folder;
  const std::string one = "sha256:" + std::string(64, 'a'), other = "sha256:" + std::string(64, 'b');
  mlk::image::note_pushed(folder.path(), one);
  std::filesystem::last_write_time(folder.path() / "pushed" / one,
                                   std::filesystem::file_time_type::clock::now() + std::chrono::hours(5));
  CHECK(mlk::image::is_just_pushed(folder.path(), one));
  mlk::image::note_pushed(folder.path(), other);
  CHECK(mlk::image::is_just_pushed(folder.path(), one));
  CHECK(mlk::image::is_just_pushed(folder.path(), other));
  CHECK(std::filesystem::status(folder.path() / "pushed").permissions() == std::filesystem::perms::owner_all);
}

TEST_CASE("note_pushed() ignores a failed write, and the image does not count as just pushed") {
  const TemporaryFolder folder;
  const std::string one = "sha256:" + std::string(64, 'a');
  const std::filesystem::path file = folder.write("file", "");
  CHECK_NOTHROW(mlk::image::note_pushed(file, one));
  CHECK_FALSE(mlk::image::is_just_pushed(file, one));
  folder.write("pushed/x", "");
  folder.write("y", "");
  CHECK_FALSE(mlk::image::is_just_pushed(folder.path(), "x"));
  CHECK_FALSE(mlk::image::is_just_pushed(folder.path(), "../y"));
}
