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

// What is said of the program, where train.py, src/fit.py and src/go.sh travel.
std::string missing(const std::string& run, const std::string& more = "") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "beside.py") << "print()";
  mlk::FileContents files;
  files.code = mlk::CodeArchive{
      .digest = "d", .bytes = "b", .source = "", .files = {"src/fit.py", "src/go.sh", "train.py"}};
  return mlk::advice_on_missing_program(
      mlk::load_experiment("name: x\nmode: single\ncode: .\nrun: " + run + "\n" + more, "x.yaml", {},
                           {{"single"}}),
      files, folder.path());
}

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

TEST_CASE("a script that is in no code is told, with the file that was meant") {
  CHECK(missing("python3 trian.py --lr 1") ==
        "`run:` names trian.py, which is not in the code; did you mean train.py?");
  CHECK(missing("[python3, -u, trian.py]") == missing("python3 trian.py"));
  CHECK(missing("/usr/bin/python3.12 ./trian.py; true") ==
        "`run:` names ./trian.py, which is not in the code; did you mean train.py?");
  CHECK(missing("torchrun --nproc_per_node 2 fit.py") ==
        "`run:` names fit.py, which is not in the code; did you mean src/fit.py?");
  CHECK(missing("bash run.sh") == "`run:` names run.sh, which is not in the code");
  CHECK(missing("./go.sh") == "`run:` names ./go.sh, which is not in the code; did you mean src/go.sh?");
  CHECK(missing("python3 src/fit.py", "workdir: src\n") ==
        "`run:` names src/fit.py, which is not in the code; did you mean fit.py?");
}

TEST_CASE("a program that is there, or that something else may bring, is not told") {
  for (const char* run :
       {"python3 train.py", "python3 ./src/fit.py other.py", "python3 /app/trian.py", "go.sh", "trainer",
        "python3 -m trian", "python3 -c 'import x' trian.py", "python3 beside.py", "python3 ../trian.py",
        "cd src && python3 fit.py", "cp /app/x.py .; python3 x.py", "python3 $DIR/x.py",
        "bash -c 'cd src; sh go.sh'", "[bash, -c, cd src && python3 fit.py]", "cat x.py",
        "python3 --conf=x.py train.py"}) {
    CAPTURE(run);
    CHECK(missing(run).empty());
  }
  const TemporaryFolder folder;
  const mlk::Experiment without =
      mlk::load_experiment("name: x\nmode: single\nrun: python3 trian.py\n", "x.yaml", {}, {{"single"}});
  CHECK(mlk::advice_on_missing_program(without, {}, folder.path()).empty());
}

TEST_CASE("all that is wrong with a program is told") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "other.py") << "print()";
  mlk::FileContents files;
  files.code = mlk::CodeArchive{.digest = "d", .bytes = "b", .source = "", .files = {"train.py"}};
  const mlk::Experiment experiment = mlk::load_experiment(
      "name: x\nmode: single\ncode: .\nrun: python3 trian.py other.py\n", "x.yaml", {}, {{"single"}});
  const Words advice = mlk::advice_on_program(experiment, files, folder.path());
  REQUIRE(advice.size() == 2);
  CHECK(advice[0] == mlk::advice_on_left_behind("other.py", true));
  CHECK(advice[1].starts_with("`run:` names trian.py"));
}
