// Checks that the schema and its manual page have the same keys.
#include "cli/experiment/schema.h"

#include <filesystem>
#include <set>

#include <doctest/doctest.h>

#include "cli/util/files.h"
#include "cli/util/text.h"
#include "cli/yaml/yaml.h"
#include "tests/unit/paths.h"

TEST_SUITE_BEGIN("experiment/schema");

namespace mlk {
namespace {

std::string unescaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('\\', at)) != std::string::npos; ++at) text.erase(at, 1);
  return text;
}

// "section key" for every key that the page describes below its heading KEYS.
std::set<std::string> keys_of_page() {
  constexpr std::size_t limit = 1 << 20;
  const auto lines = split(read_file(mlk::test::source_dir() / "man/mlk-experiment.5", limit), '\n');
  std::set<std::string> found;
  bool in_keys = false;
  std::string section;
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    if (lines[i].starts_with(".SH ")) in_keys = lines[i] == ".SH KEYS";
    if (!in_keys) continue;
    if (lines[i].starts_with(".SS ")) section = unescaped(lines[i].substr(4));
    if (lines[i] == ".TP" && lines[i + 1].starts_with(".B ")) {
      const std::string key = section + " " + unescaped(lines[i + 1].substr(3));
      CHECK_MESSAGE(found.insert(key).second, key << " is described twice");
    }
  }
  return found;
}

TEST_CASE("mlk-experiment(5) describes every key of the schema, and no other key") {
  std::set<std::string> keys;
  for (const Section& section : schema()) {
    for (const Key& key : section.keys) keys.insert(std::string(section.name) + " " + std::string(key.name));
  }
  CHECK(keys.size() > 50);
  CHECK(keys_of_page() == keys);
}

TEST_CASE("mlk-experiment(5) has every default of the schema") {
  constexpr std::size_t limit = 1 << 20;
  const std::string page = unescaped(read_file(mlk::test::source_dir() / "man/mlk-experiment.5", limit));
  for (const Section& section : schema()) {
    const std::size_t start = page.find(".SS " + std::string(section.name) + "\n", page.find(".SH KEYS"));
    REQUIRE(start != std::string::npos);
    for (const Key& key : section.keys) {
      if (key.fallback.empty() || key.fallback == "{}" || key.fallback == "[]") continue;
      const std::string expected =
          key.fallback == required ? "Required." : "Default: " + std::string(key.fallback) + ".";
      const std::size_t begin = page.find("\n.TP\n.B " + std::string(key.name) + "\n", start);
      REQUIRE(begin != std::string::npos);
      const std::size_t at = begin + 4;  // of "\n.B"
      const std::string entry = page.substr(at, page.find("\n.", at + 4) - at);
      CHECK_MESSAGE(entry.find(expected) != std::string::npos,
                    section.name << " " << key.name << ": " << expected);
    }
  }
}

TEST_CASE("every default of the schema is valid YAML") {
  for (const Section& section : schema()) {
    for (const Key& key : section.keys) {
      CHECK_FALSE(key.doc.empty());
      if (!key.fallback.empty() && key.fallback != required)
        CHECK_NOTHROW(parse_yaml(key.fallback, "default"));
      const bool refers =
          key.type == Type::section || key.type == Type::sections || key.type == Type::section_map;
      if (refers) CHECK_NOTHROW(schema_section(key.detail));
    }
  }
}

}  // namespace
}  // namespace mlk
