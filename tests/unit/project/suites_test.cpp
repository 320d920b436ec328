// Each file of unit tests has one suite, whose name is the path of the file. `unit_run -ts='run/read/*'` runs
// the tests of a folder.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/project/rooms.h"

TEST_SUITE_BEGIN("project/suites");

namespace {

// Returns "run/read/tails" for tests/unit/run/read/tails_test.cpp; empty if the file is no file of tests.
std::string suite_of(const std::string& path) {
  const std::string begin = "tests/unit/", end = "_test.";
  const std::size_t name = path.rfind(end);
  if (!path.starts_with(begin) || name == std::string::npos) return "";
  return path.substr(begin.size(), name - begin.size());
}

}  // namespace

TEST_CASE("each file of unit tests begins one suite, named after the file, before the first test") {
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

TEST_CASE("suite_of() removes tests/unit/ and the ending _test.cpp from the path of a test file") {
  CHECK(suite_of("tests/unit/run/read/tails_test.cpp") == "run/read/tails");
  CHECK(suite_of("tests/unit/cuda/ops_test.cu") == "cuda/ops");
  CHECK(suite_of("tests/unit/main.cpp").empty());
  CHECK(suite_of("tests/unit/run/fixture.h").empty());
}
