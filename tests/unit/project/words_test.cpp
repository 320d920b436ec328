// The names in the code must not contain retired words.

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/paths.h"
#include "tests/unit/project/rooms.h"

TEST_SUITE_BEGIN("project/words");

namespace fs = std::filesystem;

namespace {

// The standard term for each retired word.
std::map<std::string, std::string> retired_words() {
  std::ifstream in(fs::path(mlk::test::source_dir()) / "tests/unit/project/retired_words.txt");
  const std::regex form("^(\\w+) -> (.+)$");
  std::map<std::string, std::string> words;
  for (std::string line; std::getline(in, line);) {
    std::smatch parts;
    if (line.empty() || line[0] == '#') continue;
    REQUIRE_MESSAGE(std::regex_match(line, parts, form), line);
    words[parts[1]] = parts[2];
  }
  return words;
}

// A line without its comment and without the contents of its string literals.
std::string code_without_texts(const std::string& line) {
  static const std::regex text("\"([^\"\\\\]|\\\\.)*\"");
  const std::string without_texts = std::regex_replace(line, text, "\"\"");
  return without_texts.substr(0, without_texts.find("//"));
}

// The whole words of a text.
std::vector<std::string> words_in(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const bool inside = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (inside) words.back() += c;
    if (!inside && !words.back().empty()) words.emplace_back();
  }
  return words;
}

}  // namespace

TEST_CASE("the code contains no word of retired_words.txt as a name") {
  const std::map<std::string, std::string> retired = retired_words();
  REQUIRE(retired.size() > 10);
  int files = 0;
  for (const mlk::test::SourceFile& source :
       mlk::test::sources_below(mlk::test::roots_of_long_lived_code())) {
    ++files;
    for (const std::string& line : source.lines) {
      for (const std::string& word : words_in(code_without_texts(line))) {
        const auto old = retired.find(word);
        if (old != retired.end()) FAIL_CHECK(source.path.string(), ": ", line, "\nuse: ", old->second);
      }
    }
  }
  CHECK(files > 100);
}

TEST_CASE("comments and texts may use words that are retired as names") {
  CHECK(words_in(code_without_texts("steer(a);  // who steers")) ==
        std::vector<std::string>{"steer", "a", ""});
  CHECK(code_without_texts("say(\"a \\\" Refusal\");") == "say(\"\");");
}
