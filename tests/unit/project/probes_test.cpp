// Compares the code with runtime/PROTOCOLS.md, which explains the probes, the messages and the rules of the
// agreement.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/paths.h"

TEST_SUITE_BEGIN("project/probes");

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

TEST_CASE("each probe occurs once in the code and has a row in PROTOCOLS.md") {
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

TEST_CASE("PROTOCOLS.md has a row for each message between processes") {
  const fs::path runtime = fs::path(mlk::test::source_dir()) / "runtime";
  const std::string header = content_of(runtime / "transport/wire.h");
  std::smatch types;
  REQUIRE(std::regex_search(header, types, std::regex("enum class MessageType[^{]*\\{([^}]*)\\}")));
  const std::string without_comments = std::regex_replace(types[1].str(), std::regex("//[^\n]*"), "");
  const auto in_code = names_in(without_comments, std::regex("([a-z_]+)"));
  REQUIRE(in_code.size() > 30);
  // The first column of a row may name several messages.
  std::set<std::string> on_page;
  std::istringstream page(content_of(runtime / "PROTOCOLS.md"));
  bool in_table = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| message | direction |")) in_table = true;
    if (!line.starts_with("|")) in_table = false;
    if (!in_table) continue;
    const auto names = names_in(line.substr(0, line.find('|', 1)), std::regex("`([a-z_]+)`"));
    on_page.insert(names.begin(), names.end());
  }
  for (const std::string& name : in_code)
    CHECK_MESSAGE(on_page.contains(name), name, " has no row among the messages of PROTOCOLS.md");
  for (const std::string& name : on_page) CHECK_MESSAGE(in_code.contains(name), name, " is not in wire.h");
}

TEST_CASE("the files of runtime/membership mention exactly the rules of PROTOCOLS.md") {
  const fs::path top = mlk::test::source_dir();
  const auto rules = names_in(content_of(top / "runtime/PROTOCOLS.md"), std::regex("\n- \\*\\*(A[0-9]+),"));
  REQUIRE(rules.size() > 10);
  for (const std::string& rule : rules) CHECK_MESSAGE(rules.count(rule) == 1, rule);
  const auto named_below = [](const fs::path& folder) {
    std::set<std::string> named;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      const auto names = names_in(content_of(entry.path()), std::regex("\\b(A[0-9]+)\\b"));
      named.insert(names.begin(), names.end());
    }
    return named;
  };
  const std::set<std::string> in_code = named_below(top / "runtime/membership"),
                              in_sim = named_below(top / "tests/sim");
  for (const std::string& rule : rules)
    CHECK_MESSAGE(in_code.contains(rule), rule, " is not named in the code");
  for (const std::set<std::string>& named : {in_code, in_sim}) {
    for (const std::string& rule : named) CHECK_MESSAGE(rules.contains(rule), rule, " is no rule");
  }
}
