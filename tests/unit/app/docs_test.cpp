// Compares the manual with the command tree. A test fails if a command or flag has no line in its page, or if
// a line has no flag.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>
#include <doctest/doctest.h>

#include "cli/args/command_tree.h"
#include "tests/unit/app/tree.h"
#include "tests/unit/paths.h"

TEST_SUITE_BEGIN("app/docs");

namespace fs = std::filesystem;

namespace {

using mlk::visible_commands;
using mlk::test::Tree;

const fs::path top = mlk::test::source_dir();

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in, "there is no ", path.string());
  std::string text{std::istreambuf_iterator<char>(in), {}};
  return std::regex_replace(text, std::regex("\\\\-"), "-");  // roff writes a hyphen that may be copied as \-
}

// The flags of the command itself, such as "--flag" and "-f".
std::set<std::string> flags_of(const CLI::App& app) {
  std::set<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.insert("--" + name);
    for (const std::string& name : option->get_snames()) flags.insert("-" + name);
  }
  flags.erase("--help");
  flags.erase("-h");
  return flags;
}

// The flags that have an entry in a page (".B" or ".BR" or ".OP" lines, and bold words at the start of a
// tagged paragraph).
std::set<std::string> flags_in(const std::string& page) {
  std::set<std::string> flags;
  std::istringstream lines(page);
  const std::regex flag("(^|[\\s,\\\\fB])(--?[a-zA-Z][-a-z]*)");
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(".B") && !line.starts_with("\\fB-")) continue;
    for (auto it = std::sregex_iterator(line.begin(), line.end(), flag); it != std::sregex_iterator(); ++it) {
      flags.insert((*it)[2].str());
    }
  }
  return flags;
}

bool names(const std::string& page, const std::string& word) {
  return std::regex_search(page, std::regex("(^|[^-a-z])" + word + "([^-a-z]|$)"));
}

}  // namespace

TEST_CASE("the manual page of each command names all of its flags, and no flag that does not exist") {
  Tree tree;
  const std::unique_ptr<CLI::App> root = mlk::make_app(tree.session);
  const std::set<std::string> global = flags_of(*root);
  REQUIRE(visible_commands(*root).size() >= 14);
  for (const CLI::App* command : visible_commands(*root)) {
    const std::string page_name = "mlk-" + command->get_name() + ".1";
    const std::string page = text_of(top / "man" / page_name);
    std::set<std::string> flags = flags_of(*command);
    for (const CLI::App* sub : visible_commands(*command)) {
      CHECK_MESSAGE(names(page, sub->get_name()), page_name, " does not mention ", sub->get_name());
      flags.merge(flags_of(*sub));
    }
    for (const std::string& flag : flags)
      CHECK_MESSAGE(names(page, flag), page_name, " does not mention ", flag);
    for (const std::string& flag : flags_in(page)) {
      const bool real = flags.count(flag) == 1 || global.count(flag) == 1;
      CHECK_MESSAGE(real, page_name, " documents ", flag, ", which the command does not have");
    }
    for (const CLI::Option* option : command->get_options()) {
      if (!option->get_positional()) continue;
      const std::string name = option->get_name(true);
      CHECK_MESSAGE(names(page, name), page_name, " does not mention ", name);
    }
  }
}

TEST_CASE("mlk(1) names every command, every global flag and every exit code") {
  Tree tree;
  const std::unique_ptr<CLI::App> root = mlk::make_app(tree.session);
  const std::string page = text_of(top / "man" / "mlk.1");
  for (const CLI::App* command : visible_commands(*root)) {
    CHECK_MESSAGE(names(page, "mlk-" + command->get_name()), "mlk.1 does not mention mlk-",
                  command->get_name());
  }
  for (const std::string& flag : flags_of(*root))
    CHECK_MESSAGE(names(page, flag), "mlk.1 does not mention ", flag);
  for (const int code : {0, 1, 2, 3, 4, 5, 6, 7, 8, 124, 130}) {
    CHECK_MESSAGE(page.find(".B " + std::to_string(code) + "\n") != std::string::npos,
                  "mlk.1 does not explain exit code ", code);
  }
}

TEST_CASE("a misspelt command gets a suggestion and exit code 2") {
  Tree tree;
  CHECK(mlk::run({"sumbit", "x.yaml"}, tree.session) == 2);
  CHECK(tree.err.str() == "mlk: error: there is no command 'sumbit'\nhint: did you mean: mlk submit\n");
}

TEST_CASE("--help with an unknown command or flag gives an error instead of the help") {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"nope", "--help"},
                                             {"--help", "nope"},
                                             {"local", "nope", "-h"},
                                             {"ls", "--nope", "--help"},
                                             {"nope", "--version"}}) {
    Tree tree;
    CHECK_MESSAGE(mlk::run(words, tree.session) == 2, words[0]);
    CHECK(tree.err.str().starts_with("mlk: error: there is no "));
    CHECK(tree.out.str().empty());
  }
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--help"},
                                             {"submit", "--help"},
                                             {"submit", "x.yaml", "--help"},
                                             {"local", "up", "-h"},
                                             {"--version"}}) {
    Tree tree;
    CHECK_MESSAGE(mlk::run(words, tree.session) == 0, words[0]);
  }
}

TEST_CASE("a misspelt flag gets a suggestion even if a required argument is missing") {
  Tree tree;
  CHECK(mlk::run({"submit", "--folow"}, tree.session) == 2);
  CHECK(tree.err.str() == "mlk: error: there is no flag '--folow'\nhint: did you mean: --follow\n");
}

TEST_CASE("a flag that may be repeated takes one value each time") {
  Tree tree;
  CHECK(mlk::run({"submit", "--dry-run", "--set", "name=other", "-e", "A=-1",
                  (top / "examples" / "digits-ps.yaml").string()},
                 tree.session) == 0);
  CHECK(tree.out.str().starts_with("other-"));
}

TEST_CASE("if a flag has a word in the place of a whole number, the error names the flag") {
  Tree tree;
  CHECK(mlk::run({"logs", "digits", "--rank", "x"}, tree.session) == 2);
  CHECK(tree.err.str() ==
        "mlk: error: --rank: must be a whole number, not 'x'\nhint: see: mlk logs --help\n");
}

TEST_CASE("commands refuse an invalid namespace even if they use no cluster") {
  const std::string file = (top / "examples" / "digits-ps.yaml").string();
  for (const char* command : {"render", "submit", "status"}) {
    Tree tree;
    CHECK(mlk::run({command, "-n", "Bad Name", file}, tree.session) == 2);
    CHECK(tree.err.str() ==
          "mlk: error: --namespace: 'Bad Name' is not the name of a namespace\nhint: see: mlk " +
              std::string(command) + " --help\n");
  }
}

TEST_CASE("if the command after mlk local is unknown or missing, the error names mlk local --help") {
  Tree tree;
  CHECK(mlk::run({"local", "bogus"}, tree.session) == 2);
  CHECK(mlk::run({"local"}, tree.session) == 2);
  CHECK(tree.err.str() ==
        "mlk: error: there is no command 'local bogus'\nhint: see: mlk local --help\n"
        "mlk: error: a command is required\nhint: list the commands with: mlk local --help\n");
}

TEST_CASE("help shows the optional value of a flag in brackets") {
  Tree tree;
  CHECK(mlk::run({"submit", "--help"}, tree.session) == 0);
  CHECK(tree.out.str().find("--dry-run[=client|server]  ") != std::string::npos);
}
