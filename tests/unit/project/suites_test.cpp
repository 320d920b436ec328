// Each file of unit tests is a suite with the path of the tested file. `unit_run -ts='run/read/*'` runs the
// tests of a folder.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/project/rooms.h"

TEST_SUITE_BEGIN("project/suites");

namespace {

// "run/read/tails" of tests/unit/run/read/tails_test.cpp; empty if the file has no tests.
std::string suite_of(const std::string& path) {
  const std::string begin = "tests/unit/", end = "_test.";
  const std::size_t name = path.rfind(end);
  if (!path.starts_with(begin) || name == std::string::npos) return "";
  return path.substr(begin.size(), name - begin.size());
}

}  // namespace

TEST_CASE("each file of unit tests begins its suite, named after the file, before its first test") {
  int files = 0;
  for (const mlk::test::SourceFile& source : mlk::test::sources_below({"tests/unit"})) {
    const std::string suite = suite_of(source.path.generic_string());
    std::vector<std::string> begun;
    for (const std::string& line : source.lines) {
      if (line.starts_with("TEST_SUITE_BEGIN(")) begun.push_back(line);
      if (line.starts_with("TEST_CASE(") && begun.empty())
        FAIL_CHECK(source.path.string(), ": a test before TEST_SUITE_BEGIN");
    }
    if (suite.empty()) continue;
    ++files;
    CHECK_MESSAGE(begun == std::vector<std::string>{"TEST_SUITE_BEGIN(\"" + suite + "\");"},
                  source.path.string());
  }
  CHECK(files > 400);
}

TEST_CASE("a suite has the path of its file below tests/unit") {
  CHECK(suite_of("tests/unit/run/read/tails_test.cpp") == "run/read/tails");
  CHECK(suite_of("tests/unit/cuda/ops_test.cu") == "cuda/ops");
  CHECK(suite_of("tests/unit/main.cpp").empty());
  CHECK(suite_of("tests/unit/run/fixture.h").empty());
}
