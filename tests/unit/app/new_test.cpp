// Tests which program a starter experiment names.
#include <fstream>

#include <doctest/doctest.h>

#include "cli/util/files.h"
#include "tests/unit/app/tree.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("app/new");

namespace {

// The program that mlk new names in a folder of these files.
std::string program_among(const std::vector<std::string>& files) {
  const TemporaryFolder folder;
  for (const std::string& file : files) std::ofstream(folder.path() / file) << "print()\n";
  std::filesystem::create_directory(folder.path() / "package.py");
  mlk::test::Tree tree;
  const std::filesystem::path file = folder.path() / "experiment.yaml";
  CHECK(tree.run({"new", "--name", "x", file.string()}) == 0);
  const std::string text = mlk::read_file(file, 1 << 16), begin = "run: [python3, ";
  const std::size_t at = text.find(begin) + begin.size();
  return text.substr(at, text.find(']', at) - at);
}

}  // namespace

TEST_CASE("a starter experiment runs train.py, else main.py, else the only Python file of the folder") {
  CHECK(program_among({"main.py", "train.py", "x.py"}) == "train.py");
  CHECK(program_among({"main.py", "x.py"}) == "main.py");
  CHECK(program_among({"example.py", "notes.txt"}) == "example.py");
  CHECK(program_among({"one.py", "two.py"}) == "train.py");
  CHECK(program_among({}) == "train.py");
  CHECK(program_among({"my program.py"}) == "train.py");  // this name would need quotes
}
