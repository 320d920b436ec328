// Tests the table of searches.
#include "sweeps/search/search.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/util/text.h"
#include "tests/unit/paths.h"

TEST_SUITE_BEGIN("sweeps/search/search");

using namespace mlk::sweeps;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(mlk::test::source_dir() / path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("find_search() finds each search by its name") {
  for (const SearchKind& each : search_kinds) {
    CHECK(&search_kind(each.kind) == &each);
    CHECK(find_search(each.name) == &each);
    CHECK(to_string(each.kind) == each.name);
  }
  CHECK(find_search("anneal") == nullptr);
  CHECK(names_of_searches() == std::vector<std::string>{"grid", "random", "list", "tpe"});
  CHECK(names_for_command() == std::vector<std::string>{"grid", "random", "tpe"});
}

TEST_CASE("every search is named in the help of the key `search` and in the manual page") {
  CHECK(text_of("cli/experiment/schema.cpp").find('"' + mlk::join_or(names_of_searches()) + '"') !=
        std::string::npos);
  for (const std::string& name : names_of_searches())
    CHECK_MESSAGE(text_of("man/mlk-experiment.5").find(name) != std::string::npos, name);
}
