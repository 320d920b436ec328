// mlk run: the experiment that it makes of a command line.
#include <filesystem>

#include <doctest/doctest.h>

#include "tests/unit/app/tree.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("app/run");

namespace {

std::string experiment_of(std::vector<std::string> words) {
  mlk::test::Tree tree;
  std::vector<std::string> all{"run", "--name", "x", "--dry-run", "-o", "experiment"};
  all.insert(all.end(), words.begin(), words.end());
  CHECK(tree.run(all) == 0);
  CHECK(tree.err.str() == "");
  return tree.out.str();
}

}  // namespace

TEST_CASE("mlk run prints the experiment file that does the same") {
  CHECK(experiment_of({"--", "python", "train.py", "--lr", "0.1"}) ==
        "# written by mlk run\nname: x\nmode: single\ncode:\n  path: \".\"\nworkers:\n  count: 1\nrun:\n  - "
        "python\n  - train.py\nargs:\n"
        "  lr: 0.1\n");
  CHECK(experiment_of({"--workers", "2", "--framework", "torch", "--image", "i", "--gpu", "1", "--cpu", "4",
                       "--memory", "8Gi", "--set", "time_limit=1h", "-e", "A=b c", "--", "./p"}) ==
        "# written by mlk run\nname: x\nmode: allreduce\nframework: torch\nimage: i\ncode:\n  path: "
        "\".\"\nworkers:\n  count: 2\n"
        "  cpu: \"4\"\n  gpu: 1\n  memory: \"8Gi\"\nrun:\n  - \"./p\"\nenv:\n  A: \"b c\"\ntime_limit: "
        "\"1h\"\n");
}

TEST_CASE("mlk run refuses a wrong value of a flag with exit code 2") {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--memory", "lots"},
                                                {"--framework", "nothing"},
                                                {"--name", "Bad Name"},
                                                {"--set", "run=x", "--set", "train.steps=1"}}) {
    mlk::test::Tree tree;
    std::vector<std::string> all{"run", "--dry-run", "-o", "experiment"};
    all.insert(all.end(), wrong.begin(), wrong.end());
    all.insert(all.end(), {"--", "p"});
    CHECK(tree.run(all) == 2);
    CHECK(tree.out.str() == "");
  }
}

TEST_CASE("mlk run asks how several workers find each other, except if the command starts torchrun") {
  CHECK(experiment_of({"--workers", "2", "--", "torchrun", "train.py"}).find("framework: torch\n") !=
        std::string::npos);
  CHECK(experiment_of({"--", "torchrun", "train.py"}).find("framework") == std::string::npos);
  CHECK(experiment_of({"--workers", "2", "--", "python", "-m", "torch.distributed.run", "t.py"})
            .find("framework: torch\n") != std::string::npos);
  const auto asked = [](const std::string& answer) {
    mlk::test::Tree tree;
    if (!answer.empty()) tree.session.read_answer = [&] { return answer; };
    const int code =
        tree.run({"run", "--name", "x", "--workers", "2", "--dry-run", "-o", "experiment", "--", "./p"});
    return std::pair(code, tree.out.str() + tree.err.str());
  };
  CHECK(asked("").first == 2);
  CHECK(asked("").second.find("2 workers need --framework") != std::string::npos);
  CHECK(asked("jax\n").first == 0);
  CHECK(asked("jax\n").second.find("framework: jax\n") != std::string::npos);
  CHECK(asked("none").second.find("mode: allreduce\n") != std::string::npos);
  CHECK(asked("\n").first == 2);
  CHECK(asked("nothing").first == 2);
}
