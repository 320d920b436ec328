// The probes and the messages in the code, and the rows of runtime/PROTOCOLS.md that name them.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
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

TEST_CASE("each message between processes has a row in PROTOCOLS.md, and no other has one") {
  const fs::path runtime = fs::path(mlk::test::source_dir()) / "runtime";
  const std::string header = content_of(runtime / "transport/wire.h");
  std::smatch types;
  REQUIRE(std::regex_search(header, types, std::regex("enum class MessageType[^{]*\\{([^}]*)\\}")));
  const std::string without_comments = std::regex_replace(types[1].str(), std::regex("//[^\n]*"), "");
  const auto in_code = names_in(without_comments, std::regex("([a-z_]+)"));
  REQUIRE(in_code.size() > 30);
  // A row may name several messages, in its first column.
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
