// The messages for invalid command lines.

#include <doctest/doctest.h>

#include "tests/unit/app/tree.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("app/usage");

namespace {

std::string refusal(const std::vector<std::string>& words) {
  mlk::test::Tree tree;
  CHECK(tree.run(words) == 2);
  CHECK(tree.out.str().empty());
  return tree.err.str();
}

}  // namespace

TEST_CASE("the error for a surplus argument names the argument and shows a correct command line") {
  for (const std::string command : {"logs", "rollback"}) {
    CHECK(refusal({command, "a", "b c", "d"}) == "mlk: error: mlk " + command +
                                                     " takes one RUN, but 'b c' is given as well\n"
                                                     "hint: one at a time: mlk " +
                                                     command + " a\n");
  }
  CHECK(refusal({"submit", "a b.yaml", "c.yaml"}) ==
        "mlk: error: mlk submit takes one FILE, but 'c.yaml' is given as well\n"
        "hint: one at a time: mlk submit 'a b.yaml'\n");
  CHECK(refusal({"ls", "-o", "wide", "--", "a", "b"}) ==
        "mlk: error: mlk ls takes one NAME, but 'b' is given as well\nhint: one at a time: mlk ls a\n");
  CHECK(refusal({"local", "up", "now"}) ==
        "mlk: error: mlk local up takes no argument, but 'now' is given\nhint: try: mlk local up\n");
}

TEST_CASE("the error for a flag without a value shows the form of the value") {
  CHECK(refusal({"logs", "x", "--tail"}) ==
        "mlk: error: there is no value after '--tail'\nhint: it takes one: mlk logs x --tail LINES\n");
  CHECK(refusal({"ls", "-o"}) ==
        "mlk: error: there is no value after '-o'\nhint: it takes one: mlk ls -o wide|name|json\n");
  CHECK(refusal({"ls", "-n"}) ==
        "mlk: error: there is no value after '-n'\nhint: it takes one: mlk ls -n NAME\n");
}

TEST_CASE("if a value of a flag is wrong or superfluous, the error names the flag") {
  CHECK(refusal({"submit", "x.yaml", "--follow=often"}) ==
        "mlk: error: '--follow' takes no value\nhint: use the flag alone: --follow\n");
  CHECK(refusal({"ls", "--tag", "a", "--tag", "b"}) ==
        "mlk: error: '--tag' is given more than once\nhint: see: mlk ls --help\n");
  CHECK(refusal({"ls", "-o", "yaml"}) ==
        "mlk: error: --output: must be wide, name or json, not 'yaml'\nhint: see: mlk ls --help\n");
  CHECK(refusal({"status", "x", "-o", "yaml"}) ==
        "mlk: error: --output: must be json, not 'yaml'\nhint: see: mlk status --help\n");
}

TEST_CASE("mlk reports errors in flags and arguments without a request to the cluster") {
  struct Line {
    std::vector<std::string> words;
    std::string told;
  };
  std::vector<Line> lines{{{"results", "x", "--objective", "maximise"}, "--objective:1:1: "}};
  for (const std::string command : {"ls", "results", "stop", "resume", "delete"}) {
    for (const auto& [where, told] :
         {std::pair("lr <", "--where:1:5: "), std::pair("a =~ '('", "--where:1:6: "),
          std::pair("", "--where:1:1: "), std::pair("  ", "--where:1:1: ")})
      lines.push_back({{command, "x", "--where", where}, told});
  }
  for (const std::string command : {"stop", "resume", "delete"}) {
    lines.push_back({{command}, "a run is required"});
    lines.push_back({{command, "--yes"}, "a run is required"});
  }
  for (Line& line : lines) {
    mlk::test::Tree tree;
    line.words.insert(line.words.end(), {"--kubeconfig", "/nowhere/config"});
    CHECK(tree.run(line.words) == 2);
    CHECK_MESSAGE(tree.err.str().find(line.told) != std::string::npos, tree.err.str());
  }
}

TEST_CASE("if a flag of mlk sweep is wrong, the error names the flag and shows its value") {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("x.yaml", "name: x\nmode: single\nrun: echo ${sweep.lr}\nsweep: {search: grid}\n");
  const auto said = [&path](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"sweep", "--dry-run", path, "lr=1,2"});
    const std::string text = refusal(flags);
    return text.substr(0, text.find("\nhint: "));
  };
  CHECK(said({"--objective", "best"}) ==
        "mlk: error: --objective:1:1: sweep.objective must be `maximize METRIC` or `minimize METRIC`, not "
        "'best'\n"
        "  \"best\"\n  ^");
  CHECK(
      said({"--search", "random"}) ==
      "mlk: error: --search:1:1: search random needs a number of trials: {random: {trials: 50}}, or --trials "
      "50\n  random\n  ^");
  CHECK(said({"--search", "grid", "--trials", "5"}) ==
        "mlk: error: --trials:1:1: search grid has no option 'trials'\n  5\n  ^");
  CHECK(
      said({"--trials", "100001"}).starts_with("mlk: error: --trials:1:1: trials of search random must be "));
  CHECK(said({"--parallel", "99999999"}).starts_with("mlk: error: --parallel:1:1: sweep.parallel must be "));
}

TEST_CASE("mlk says where the words of a program go on its command line") {
  CHECK(refusal({"run", "--name", "x", "python", "train it.py", "--lr", "0.1"}) ==
        "mlk: error: mlk run takes the command of a program after --\n"
        "hint: mlk run --name x -- python 'train it.py' --lr 0.1\n");
  CHECK(refusal({"run"}) ==
        "mlk: error: run needs the command of a program after --\n"
        "hint: for example: mlk run -- python train.py --lr 0.1\n");
  CHECK(refusal({"submit", "x.yaml", "--hidden-size", "64"}) ==
        "mlk: error: there is no flag '--hidden-size'\n"
        "hint: arguments of the program come after --: mlk submit x.yaml -- --hidden-size 64\n");
  CHECK(refusal({"run", "--workers", "2", "--", "p"}) ==
        "mlk: error: 2 workers need --framework, by which they find each other\n"
        "hint: torch, tensorflow, jax or mpi; none if the workers need nothing of each other\n");
}

TEST_CASE("mlk help COMMAND shows the help of the command, and init is new") {
  const auto shown = [](const std::vector<std::string>& words) {
    mlk::test::Tree tree;
    CHECK(tree.run(words) == 0);
    return tree.out.str();
  };
  CHECK(shown({"help", "submit"}) == shown({"submit", "--help"}));
  CHECK(shown({"help", "local", "up"}) == shown({"local", "up", "--help"}));
  CHECK(shown({"help"}) == shown({"--help"}));
  CHECK(shown({"init", "--help"}) == shown({"new", "--help"}));
  CHECK(refusal({"help", "sumbit"}) ==
        "mlk: error: there is no command 'sumbit'\nhint: did you mean: mlk submit\n");
}
