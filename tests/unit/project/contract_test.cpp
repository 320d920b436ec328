// Compares runtime/CONTRACT.md with both sides: the golden objects, which set the variables, and the runtime,
// which reads the variables.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/paths.h"

TEST_SUITE_BEGIN("project/contract");

namespace fs = std::filesystem;

namespace {

const fs::path top = mlk::test::source_dir();

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in, "cannot open ", path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string text_below(const fs::path& folder) {
  std::string all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() != ".md") all += text_of(entry.path());
  }
  return all;
}

std::set<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), pattern); it != std::sregex_iterator();
       ++it) {
    found.insert((*it)[1].str());
  }
  return found;
}

std::string contract_text() { return text_of(top / "runtime" / "CONTRACT.md"); }

// The variables that the tables of one section of the contract list.
std::set<std::string> variables_in(const std::string& contract, const std::string& title) {
  const std::size_t begin = contract.find("\n## " + title + "\n");
  REQUIRE_MESSAGE(begin != std::string::npos, title);
  const std::string section = contract.substr(begin, contract.find("\n## ", begin + 1) - begin);
  return matches(section, std::regex("\\n\\| `(MLK_[A-Z_]+)` \\|"));
}

}  // namespace

TEST_CASE("runtime/CONTRACT.md lists exactly the variables that the renderer sets or the runtime reads") {
  const std::string contract = contract_text();
  const std::set<std::string> named = variables_in(contract, "Environment");
  REQUIRE(named.size() == 17);
  const std::set<std::string> read =
      matches(text_below(top / "runtime") + text_below(top / "kernels"), std::regex("\"(MLK_[A-Z_]+)\""));
  const std::set<std::string> set =
      matches(text_below(top / "tests" / "golden"), std::regex("\"name\": \"(MLK_[A-Z_]+)\""));
  // Only the user's own programs use these variables.
  const std::set<std::string> for_programs = matches(contract, std::regex("\\n- `(MLK_[A-Z_]+)`: "));
  REQUIRE(for_programs.size() == 3);
  for (const std::string& name : for_programs) CHECK_MESSAGE(set.count(name) == 1, name, " is not rendered");
  std::set<std::string> known = matches(contract, std::regex("\\n- `(MLK_[A-Z_]+)="));  // users set these
  for (const std::string& name : known) CHECK_MESSAGE(set.count(name) == 0, name, " is rendered");
  known.insert(named.begin(), named.end());
  // The variables of a sweep's trials: the runtime reads two of them, and the wrapper of a program sets
  // MLK_TRIAL.
  const std::set<std::string> of_trials = variables_in(contract, "Trials of a sweep");
  REQUIRE(of_trials == std::set<std::string>{"MLK_POINTS", "MLK_TRIAL", "MLK_TRIAL_INDEX"});
  known.insert({"MLK_POINTS", "MLK_TRIAL_INDEX"});
  CHECK(read == known);
  for (const std::string& name : named) CHECK_MESSAGE(set.count(name) == 1, name, " is not rendered");
  for (const std::string& name : set) {
    const bool there = named.count(name) + for_programs.count(name) + of_trials.count(name) == 1;
    CHECK_MESSAGE(there, name, " is not in the contract");
  }
}

TEST_CASE("mlk-experiment(5) lists exactly the MLK_ variables that pods get") {
  const std::string page = text_of(top / "man" / "mlk-experiment.5");
  const std::size_t begin = page.find("\n.SH VARIABLES OF PROGRAMS\n");
  REQUIRE(begin != std::string::npos);
  const std::string section = page.substr(begin, page.find("\n.SH ", begin + 1) - begin);
  const std::set<std::string> listed = matches(section, std::regex("\n\\.B (MLK_[A-Z_]+)"));
  std::set<std::string> set =
      matches(text_below(top / "tests" / "golden"), std::regex("\"name\": \"(MLK_[A-Z_]+)\""));
  // No golden file has outputs, because the name of the helper's ConfigMap depends on the compiler.
  set.insert("MLK_OUTPUTS");
  CHECK(listed == set);
}

TEST_CASE("exit_code.h and runtime/CONTRACT.md both list the exit codes 64 to 67, 70, 75 and 143") {
  const std::string contract = contract_text();
  const std::string code = text_of(top / "runtime" / "base" / "exit_code.h");
  for (const char* number : {"64", "65", "66", "67", "70", "75", "143"}) {
    CHECK_MESSAGE(contract.find("\n| " + std::string(number) + " |") != std::string::npos, number);
    CHECK_MESSAGE(code.find("= " + std::string(number)) != std::string::npos, number);
  }
}

TEST_CASE("runtime/CONTRACT.md explains every metric that the runtime prints or serves") {
  const std::string contract = contract_text();
  const fs::path metrics = top / "runtime" / "metrics";
  std::set<std::string> names =
      matches(text_of(metrics / "reporter.cpp"), std::regex("(?:add|count)\\(\"([a-z_]+)\""));
  names.merge(
      matches(text_of(metrics / "prometheus.cpp"), std::regex("(?:one|head)\\(\\s*\"(mlk_[a-z_]+)\"")));
  REQUIRE(names.size() >= 20);
  for (const std::string& name : names) {
    const bool there = std::regex_search(contract, std::regex("[` ]" + name + "[`={]"));
    CHECK_MESSAGE(there, name, " is not explained under \"Metrics\" in runtime/CONTRACT.md");
  }
}
