// The probes in the code, and the rows of runtime/PROTOCOLS.md that name them.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/paths.h"

namespace fs = std::filesystem;

namespace {

std::string content_of(const fs::path& path) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in, "cannot open ", path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::multiset<std::string> names_in(const std::string& text, const std::regex& pattern) {
  std::multiset<std::string> names;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), pattern); at != std::sregex_iterator(); ++at)
    names.insert((*at)[1].str());
  return names;
}

}  // namespace

TEST_CASE("each probe stands in the code once, and has a row in PROTOCOLS.md") {
  const fs::path runtime = fs::path(mlk::test::source_dir()) / "runtime";
  std::multiset<std::string> in_code;
  for (const auto& entry : fs::recursive_directory_iterator(runtime)) {
    if (entry.path().extension() == ".cpp")
      in_code.merge(names_in(content_of(entry.path()), std::regex("code_probe\\(\"([^\"]+)\"\\)")));
  }
  for (const std::string& name : in_code) CHECK_MESSAGE(in_code.count(name) == 1, name);
  const auto rows =
      names_in(content_of(runtime / "PROTOCOLS.md"), std::regex("`((?:allreduce|ps)\\.[a-z0-9-]+)`"));
  const std::set<std::string> on_page(rows.begin(), rows.end());
  for (const std::string& name : on_page) CHECK_MESSAGE(in_code.contains(name), name, " is not in the code");
  for (const std::string& name : in_code)
    CHECK_MESSAGE(on_page.contains(name), name, " has no row in PROTOCOLS.md");
}
