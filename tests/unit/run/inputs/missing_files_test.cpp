// Tests the advice about files of a program that lie only on this machine.
#include "cli/run/inputs/missing_files.h"

#include <fstream>

#include <doctest/doctest.h>

#include "cli/experiment/load.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("run/inputs/missing_files");

namespace {

std::vector<std::string> left(const std::filesystem::path& beside, const std::string& text,
                              const mlk::FileContents& files = {}) {
  return mlk::files_left_behind(
      mlk::load_experiment("name: x\nmode: single\n" + text, "x.yaml", {}, {{"single"}}), files, beside);
}

using Words = std::vector<std::string>;

// The advice about the program, when train.py, src/fit.py and src/go.sh travel.
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

TEST_CASE("mlk reports a file of `run:` that lies beside the experiment but is not sent") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "src");
  for (const char* file : {"train.py", "src/more.py"}) std::ofstream(folder.path() / file) << "print()";
  CHECK(left(folder.path(), "run: python3 train.py --lr 1; python3 'train.py'\n") == Words{"train.py"});
  CHECK(left(folder.path(), "run: [python3, ./src/more.py]\n") == Words{"./src/more.py"});
  CHECK(left(folder.path(), "run: python3 /app/train.py other.py src\n").empty());
  CHECK(left(folder.path(), "train: {data: {path: /d}, steps: 1}\n").empty());
}

TEST_CASE("mlk reports a file of `run:` that is sent to a folder other than the working folder") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "train.py") << "print()";
  const mlk::FileContents files{{{"code", {{"train.py", "print()"}}}}};
  const std::string data = "data: [{name: code, mount: /code, files: .}]\n";
  CHECK(left(folder.path(), "run: python3 train.py\nworkdir: /code\n" + data, files).empty());
  CHECK(left(folder.path(), "run: python3 train.py\nworkdir: /other\n" + data, files) == Words{"train.py"});
  CHECK(left(folder.path(), "run: python3 train.py\n" + data, files) == Words{"train.py"});
}

TEST_CASE("mlk reports a file of `run:` that the code does not have in the working folder") {
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

TEST_CASE("mlk reports a missing script of `run:` and suggests a similar file") {
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

TEST_CASE("mlk reports no script that the code contains or that may come from elsewhere") {
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

TEST_CASE("mlk reports both a file that is not sent and a script that does not exist") {
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

TEST_CASE("mlk checks the first file after a program that starts scripts, such as bash") {
  for (const char* program : {"python", "python3", "python3.12", "bash", "sh", "torchrun",
                              "accelerate launch", "deepspeed", "/opt/bin/torchrun --x 1"}) {
    CAPTURE(program);
    CHECK(missing(std::string(program) + " fit.py") ==
          "`run:` names fit.py, which is not in the code; did you mean src/fit.py?");
  }
  for (const char* program : {"cat", "zsh", "apython", "torchrun2", "/python3/cat"}) {
    CAPTURE(program);
    CHECK(missing(std::string(program) + " fit.py").empty());
  }
}

TEST_CASE("the file that mlk suggests for a missing script has the same extension") {
  CHECK(missing("bash trian.py") ==
        "`run:` names trian.py, which is not in the code; did you mean train.py?");
  CHECK(missing("bash trian.sh") == "`run:` names trian.sh, which is not in the code");
  CHECK(missing("bash go.sh") == "`run:` names go.sh, which is not in the code; did you mean src/go.sh?");
  CHECK(missing("bash far/away/go.sh") ==
        "`run:` names far/away/go.sh, which is not in the code; did you mean src/go.sh?");
}

TEST_CASE("mlk looks for the script of `run:` only before the first special character of a shell") {
  for (const char* sign : {"; x", "| x", "& x", "> x", "< x", "(x)", ")"}) {
    CAPTURE(sign);
    CHECK(missing(std::string("'python3 trian.py") + sign + "'").starts_with("`run:` names trian.py"));
    CHECK(missing(std::string("'python3 ") + sign + " trian.py'").empty());
  }
  CHECK(missing("python3 -x.py trian.py").starts_with("`run:` names trian.py"));
  CHECK(missing("python3 a*.py trian.py").empty());
  CHECK(missing("python3 train.py trian.py").empty());  // only the script itself is checked
  CHECK(missing("[python3, 'a b', trian.py]").empty());
}

TEST_CASE("a script that lies outside of the folder of the code is not reported") {
  CHECK(missing("python3 ../../trian.py", "workdir: src\n").empty());
  CHECK(missing("python3 ../trian.py", "workdir: src\n") ==
        "`run:` names ../trian.py, which is not in the code; did you mean ../train.py?");
}

TEST_CASE("advice_on_left_behind() suggests `code: .` if the experiment sends no code") {
  CHECK(mlk::advice_on_left_behind("x.py", true) ==
        "x.py of `run:` lies beside the experiment file, but not at this place in the code that travels; see "
        "code: and workdir: in the file, .gitignore and .mlkignore");
  CHECK(mlk::advice_on_left_behind("x.py", false) ==
        "x.py of `run:` lies beside the experiment file and does not travel with the run. Unless the image "
        "holds it, add to the file:\n    code: .");
}

TEST_CASE("mlk also reports files that stand between special characters of a shell in `run:`") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "a.sh") << "echo";
  for (const char* run : {"x;a.sh", "x|a.sh", "x&a.sh", "(a.sh)", "x<a.sh", "x>a.sh", "x=a.sh", "`a.sh`",
                          "\"a.sh\"", "x\ta.sh", "${a.sh"}) {
    CAPTURE(run);
    const nlohmann::json text = run;
    const Words found = left(folder.path(), "run: " + text.dump() + "\n");
    CHECK(found == (run == std::string("${a.sh") ? Words() : Words{"a.sh"}));
  }
}
