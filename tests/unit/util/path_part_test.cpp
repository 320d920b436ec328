// Names from outside that become names of files.
#include "cli/util/path_part.h"

#include <string>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("util/path_part");

using mlk::is_path_part;

TEST_CASE("is_path_part() accepts a name that is one part of a path, but refuses `.` and `..`") {
  for (const char* good : {"a", "train.py", ".hidden", "...", "..a", "a..", " ", "a\\b"})
    CHECK_MESSAGE(is_path_part(good), good);
  for (const char* bad : {"", ".", "..", "/", "/a", "a/", "a/b", "../a", "a/../b"})
    CHECK_MESSAGE(!is_path_part(bad), bad);
  CHECK_FALSE(is_path_part(std::string("a\0b", 3)));
  CHECK(is_path_part(std::string(255, 'a')));
  CHECK_FALSE(is_path_part(std::string(256, 'a')));
}
