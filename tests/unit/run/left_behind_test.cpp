// A program's file that lies on this machine alone.
#include "cli/run/left_behind.h"

#include <fstream>

#include <doctest/doctest.h>

#include "cli/experiment/load.h"
#include "tests/unit/util/temporary_folder.h"

namespace {

std::vector<std::string> left(const std::filesystem::path& beside, const std::string& text,
                              const mlk::FileContents& files = {}) {
  return mlk::files_left_behind(
      mlk::load_experiment("name: x\nmode: single\n" + text, "x.yaml", {}, {{"single"}}), files, beside);
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("a file beside the experiment that no mount holds is told, once") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "src");
  for (const char* file : {"train.py", "src/more.py"}) std::ofstream(folder.path() / file) << "print()";
  CHECK(left(folder.path(), "run: python3 train.py --lr 1; python3 'train.py'\n") == Words{"train.py"});
  CHECK(left(folder.path(), "run: [python3, ./src/more.py]\n") == Words{"./src/more.py"});
  CHECK(left(folder.path(), "run: python3 /app/train.py other.py src\n").empty());
  CHECK(left(folder.path(), "train: {data: {path: /d}, steps: 1}\n").empty());
}

TEST_CASE("a file that travels along and is found from the working folder is not told") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "train.py") << "print()";
  const mlk::FileContents files{{{"code", {{"train.py", "print()"}}}}};
  const std::string data = "data: [{name: code, mount: /code, files: .}]\n";
  CHECK(left(folder.path(), "run: python3 train.py\nworkdir: /code\n" + data, files).empty());
  CHECK(left(folder.path(), "run: python3 train.py\nworkdir: /other\n" + data, files) == Words{"train.py"});
  CHECK(left(folder.path(), "run: python3 train.py\n" + data, files) == Words{"train.py"});
}

TEST_CASE("with code: a file is told that is not in it, at the place where the program starts") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "src");
  for (const char* file : {"train.py", "src/train.py", "other.py"})
    std::ofstream(folder.path() / file) << "print()";
  mlk::FileContents files;
  files.code =
      mlk::CodeArchive{.digest = "d", .bytes = "b", .source = "", .files = {"src/train.py", "train.py"}};
  CHECK(left(folder.path(), "run: python3 train.py; python3 src/train.py\ncode: .\n", files).empty());
  CHECK(left(folder.path(), "run: python3 other.py\ncode: .\n", files) == Words{"other.py"});
  CHECK(left(folder.path(), "run: python3 train.py\ncode: .\nworkdir: src\n", files).empty());
  CHECK(left(folder.path(), "run: python3 src/train.py\ncode: .\nworkdir: src\n", files) ==
        Words{"src/train.py"});
  CHECK(mlk::advice_on_left_behind("x.py", false).find("code: .") != std::string::npos);
}
