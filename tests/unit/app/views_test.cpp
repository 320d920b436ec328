// Runs as people read them: in a pipe, and on terminals of 60 and 120 columns.
#include "cli/views/views.h"

#include <sstream>

#include <doctest/doctest.h>

#include "cli/ui/width.h"
#include "cli/util/text.h"

TEST_SUITE_BEGIN("app/views");

namespace {

using namespace mlk;
using namespace std::chrono_literals;

const Time now = Time{} + std::chrono::hours(500000);

RunStatus failed_run() {
  RunStatus status;
  status.run = "mnist-abcde";
  status.mode = "ps";
  status.phase = Phase::failed;
  status.why = "worker/1: exit code 3: cannot open /data/mnist/train-images (2 of 2 tries failed)";
  status.created = status.started = now - 90s;
  status.ended = now - 30s;
  status.steps = 2000;
  status.restarts = 1;
  status.result = {{"schema", 1},
                   {"step", 420},
                   {"metrics", {{"loss", 0.31234}, {"samples_per_s", 68753.4}, {"accuracy", 0.9}}}};
  Failure failure;
  failure.role = "worker";
  failure.rank = 1;
  failure.exit_code = 3;
  failure.reason = "exit code 3";
  failure.message = "reading the data\ncannot open /data/mnist/train-images";
  failure.attempts = 2;
  failure.at = now - 40s;
  status.first_failure = failure;
  const auto rank = [&](const std::string& role, int number, const std::string& state, int restarts,
                        const std::string& reason) {
    RankStatus out;
    out.role = role;
    out.rank = number;
    out.state = state;
    out.node = "node-7";
    out.restarts = restarts;
    out.reason = reason;
    out.since = now - 30s;
    status.ranks.push_back(out);
  };
  rank("worker", 0, "Running", 0, "");
  rank("worker", 1, "Failed", 1, "exit code 3: cannot open /data/mnist/train-images");
  rank("server", 0, "Running", 0, "");
  return status;
}

std::string shown(const RunStatus& status, std::size_t width) {
  std::ostringstream out;
  print_status(status, out, ui::Style(), width, now);
  return out.str();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_CASE("mlk status shows every part of a failed run if its output is a pipe") {
  CHECK(shown(failed_run(), 0) ==
        "mnist-abcde  Failed  ps  took 1m\n"
        "  why           worker/1: exit code 3: cannot open /data/mnist/train-images (2 of 2 tries failed)\n"
        "  step          420/2000\n"
        "  metrics       loss 0.3123  accuracy 0.9  samples_per_s 68753\n"
        "  restarts      1\n"
        "  failed first  worker/1: exit code 3, try 1 of 2, 40s ago\n"
        "                | reading the data\n"
        "                | cannot open /data/mnist/train-images\n"
        "\n"
        "ROLE    RANK  STATE    RESTARTS  AGE  NODE    REASON\n"
        "worker  0     Running  0         30s  node-7\n"
        "worker  1     Failed   1         30s  node-7  exit code 3\n"
        "server  0     Running  0         30s  node-7\n");
}

TEST_CASE("mlk status shows how many ranks still run while the run is restarting") {
  const auto head = [](Phase phase, std::size_t lost) {
    RunStatus status = failed_run();
    status.phase = phase;
    for (std::size_t i = 0; i < lost; ++i) status.ranks[2 - i].state = "Failed";
    const std::string text = shown(status, 0);
    return text.substr(0, text.find('\n'));
  };
  CHECK(head(Phase::restarting, 0) == "mnist-abcde  Restarting  ps  1 worker 1 server run  took 1m");
  CHECK(head(Phase::restarting, 1) == "mnist-abcde  Restarting  ps  1 worker runs  took 1m");
  CHECK(head(Phase::restarting, 3) == "mnist-abcde  Restarting  ps  took 1m");
  CHECK(head(Phase::running, 1) == "mnist-abcde  Running  ps  took 1m");
}

TEST_CASE("mlk status names the owner if it is not the user of the command") {
  std::ostringstream out;
  print_status(failed_run(), out, ui::Style(), 0, now, "ben");
  CHECK(out.str().find("\n  owner         ben\n") != std::string::npos);
  CHECK(shown(failed_run(), 0).find("owner") == std::string::npos);
}

TEST_CASE("mlk ls shows the owners if the runs have more than one") {
  RunStatus first = failed_run(), second = failed_run();
  first.submitter = {"login", "anna"};
  second.run = "mnist-fghjk";
  const auto header = [&] {
    std::ostringstream out;
    print_runs({first, second}, out, ui::Style(), 0, now);
    const std::string text = out.str();
    return text.substr(0, text.find('\n')).find("OWNER") != std::string::npos ? text : "";
  };
  CHECK(header() == "");  // the other one is unknown
  second.submitter = {"login", "anna"};
  CHECK(header() == "");
  second.submitter = {"login", "ben"};
  CHECK(header().find("mnist-fghjk  Failed  ben") != std::string::npos);
}

TEST_CASE("mlk status shows the first digits of the git commit of the code") {
  RunStatus status = failed_run();
  status.commit = "0123456789abcdef0123456789abcdef01234567";
  CHECK(shown(status, 0).find("\n  commit        0123456789ab\n") != std::string::npos);
  status.commit += "-dirty";
  CHECK(shown(status, 0).find("\n  commit        0123456789ab-dirty\n") != std::string::npos);
  CHECK(short_commit("0123") == "0123");
  CHECK(short_commit("0123-dirty") == "0123-dirty");
  CHECK(short_commit("").empty());
}

TEST_CASE("mlk status does not repeat the last log line if the reason already contains this line") {
  RunStatus status = failed_run();
  status.first_failure->message = "cannot open /data/mnist/train-images";
  CHECK(count(shown(status, 0), "cannot open") == 1);
  // If a rank ended for another reason, its line has its own reason.
  status.ranks[0].state = "Failed";
  status.ranks[0].reason = "exit code 3: disk full";
  CHECK(shown(status, 0).find("exit code 3: disk full") != std::string::npos);
}

TEST_CASE("mlk status fits a terminal of 60 columns and one of 120 columns") {
  for (const std::size_t width : {60u, 120u}) {
    for (const std::string& line : split(shown(failed_run(), width), '\n')) {
      CAPTURE(line);
      CHECK(ui::width_of(line) <= width);
    }
  }
  CHECK(shown(failed_run(), 60)
            .find("  why           worker/1: exit code 3: cannot open\n"
                  "                /data/mnist/train-images (2 of 2 tries\n"
                  "                failed)\n") != std::string::npos);
  CHECK(shown(failed_run(), 120)
            .find("worker/1: exit code 3: cannot open /data/mnist/train-images (2 of 2 tries failed)\n") !=
        std::string::npos);
}

TEST_CASE("mlk status never breaks a line between the name and the value of a metric") {
  for (std::size_t width = 40; width < 80; ++width) {
    const std::string text = shown(failed_run(), width);
    CAPTURE(text);
    for (const char* metric : {"loss 0.3123", "accuracy 0.9", "samples_per_s 68753"})
      CHECK(text.find(metric) != std::string::npos);
  }
}

TEST_CASE("mlk status folds many running ranks into one line if its output is a terminal") {
  RunStatus status = failed_run();
  for (int i = 2; i < 40; ++i) {
    RankStatus rank = status.ranks[0];
    rank.rank = i;
    status.ranks.push_back(rank);
  }
  CHECK(shown(status, 120).find("40 more ranks Running without a restart\n") != std::string::npos);
  CHECK(shown(status, 120).find("worker  1     Failed") != std::string::npos);
  CHECK(count(shown(status, 0), "worker  ") == 40);
}

TEST_CASE("mlk ls writes one line for each run") {
  RunStatus waiting;
  waiting.run = "cifar-fghij";
  waiting.mode = "single";
  waiting.phase = Phase::scheduling;
  waiting.why = "worker/0: cannot be scheduled: 0/2 nodes are available: 2 Insufficient cpu.";
  waiting.created = now - 2h;
  const auto listed = [&](std::size_t width) {
    std::ostringstream out;
    print_runs({failed_run(), waiting}, out, ui::Style(), width, now);
    return out.str();
  };
  CHECK(listed(0) ==
        "RUN          PHASE       MODE    STEP      LOSS    RESTARTS  AGE    WHY\n"
        "mnist-abcde  Failed      ps      420/2000  0.3123  1         1m30s  worker/1: exit code 3: cannot "
        "open "
        "/data/mnist/train-images (2 of 2 tries failed)\n"
        "cifar-fghij  Scheduling  single                    0         2h     worker/0: cannot be scheduled: "
        "0/2 nodes are "
        "available: 2 Insufficient cpu.\n");
  CHECK(listed(60) ==
        "RUN          PHASE       STEP      AGE    WHY\n"
        "mnist-abcde  Failed      420/2000  1m30s  worker/1: exit co…\n"
        "cifar-fghij  Scheduling            2h     worker/0: cannot …\n");
  for (const std::size_t width : {60u, 120u}) {
    for (const std::string& line : split(listed(width), '\n')) CHECK(ui::width_of(line) <= width);
  }
}

TEST_CASE(
    "mlk ls names the metrics if they are not all the loss, and shows the columns that the user has chosen") {
  RunStatus first = failed_run(), second = failed_run();
  second.run = "mnist-fghjk";
  second.result["metrics"] = {{"val_acc", 0.75}, {"lr", 0.1}, {"time", 3}};
  const auto listed = [&](const std::vector<ChosenColumn>& chosen) {
    std::ostringstream out;
    print_runs({first, second}, out, ui::Style(), 0, now, Columns::usual, chosen);
    return out.str();
  };
  const std::string usual = listed({});
  CHECK(usual.find("  METRIC  ") != std::string::npos);
  CHECK(usual.find("  loss 0.3123  ") != std::string::npos);
  CHECK(usual.find("  val_acc 0.75  ") != std::string::npos);
  CHECK(progress_line(second).find("  val_acc 0.75  ") != std::string::npos);
  const std::string chosen = listed({{"ACC", {"", "0.75"}}, {"LR", {"0.1", "0.2"}}});
  CHECK(chosen.find("  ACC   LR   ") != std::string::npos);
  CHECK(chosen.find("  0.75  0.2  ") != std::string::npos);
  CHECK(chosen.find("METRIC") == std::string::npos);
}

TEST_CASE("the live line of a run shows the step, the loss, the running ranks and the problem") {
  RunStatus status = failed_run();
  status.phase = Phase::running;
  status.why = "worker/1: restarting";
  CHECK(progress_line(status) ==
        "Running  step 420/2000  loss 0.3123  1 worker 1 server  restarts 1  worker/1: restarting");
  CHECK(phase_line(status) == "Running: worker/1: restarting");
  status.why.clear();
  CHECK(phase_line(status) == "Running");
}

TEST_CASE("old metrics of an unfinished run are shown with their age") {
  RunStatus status = failed_run();
  status.phase = Phase::restarting;
  status.result_at = now - 12s;
  const auto listed = [&] {
    std::ostringstream out;
    print_runs({status}, out, ui::Style(), 0, now);
    return out.str();
  };
  CHECK(shown(status, 0).find("  step          420/2000, as of 12s ago\n") != std::string::npos);
  CHECK(listed().find("  420/2000 (12s ago)  0.3123  ") != std::string::npos);
  status.result_at = now - 9s;
  CHECK(shown(status, 0).find(" ago\n  metrics") == std::string::npos);
  status.result_at = now - 12s;
  for (const Phase over : {Phase::succeeded, Phase::failed, Phase::stopped}) {
    status.phase = over;
    CHECK(shown(status, 0).find("as of") == std::string::npos);
    CHECK(listed().find("12s ago") == std::string::npos);
  }
}

TEST_CASE("untimed() makes two lines equal if only the time until the next retry differs") {
  const std::string line = "Restarting: worker/0: exit code 1 (try 1 of 4, next in 10s); worker/1: lost";
  CHECK(untimed(line) ==
        untimed("Restarting: worker/0: exit code 1 (try 1 of 4, next in 1m9s); worker/1: lost"));
  CHECK(untimed(line) ==
        untimed("Restarting: worker/0: exit code 1 (try 1 of 4, next is due); worker/1: lost"));
  CHECK(untimed("a (next in 3s)") == untimed("a (next is due)"));
  CHECK(untimed(line) !=
        untimed("Restarting: worker/0: exit code 1 (try 2 of 4, next in 10s); worker/1: lost"));
  CHECK(untimed(line) != untimed("Restarting: worker/0: exit code 1 (try 1 of 4, next in 10s)"));
  CHECK(untimed("next in ") == "");
}

TEST_CASE("mlk ls -o wide shows the tags of runs, and the values in which the runs differ") {
  RunStatus first = failed_run(), second = failed_run(), other = failed_run();
  first.run = "mnist-aaaaa", second.run = "mnist-bbbbb", other.run = "cifar-aaaaa";
  first.name = second.name = "mnist", other.name = "cifar";
  first.why = second.why = other.why = "";
  first.tags = {"team=vision", "paper"};
  const auto experiment = [](double lr, const std::string& note) {
    return nlohmann::json{
        {"name", "mnist"},
        {"note", note},
        {"train", {{"optimizer", {{"lr", lr}, {"type", "sgd"}}}, {"model", {{"hidden", {1, 2}}}}}}};
  };
  first.experiment = experiment(0.1, "one"), second.experiment = experiment(0.01, "two");
  other.experiment = experiment(5, "three");
  std::ostringstream out;
  print_runs({first, second, other}, out, ui::Style(), 0, now, Columns::all);
  CHECK(out.str() ==
        "RUN          PHASE   MODE  STEP      LOSS    RESTARTS  AGE    TAGS               DIFFERS IN         "
        "      WHY\n"
        "mnist-aaaaa  Failed  ps    420/2000  0.3123  1         1m30s  team=vision,paper  "
        "train.optimizer.lr=0.1\n"
        "mnist-bbbbb  Failed  ps    420/2000  0.3123  1         1m30s                     "
        "train.optimizer.lr=0.01\n"
        "cifar-aaaaa  Failed  ps    420/2000  0.3123  1         1m30s\n");
}

TEST_CASE("mlk ls -o wide fits a narrow terminal, and shows the whole age") {
  RunStatus first = failed_run(), second = failed_run();
  first.run = "a-long-experiment-name-aaaaa", second.run = "a-long-experiment-name-bbbbb";
  first.phase = Phase::running;
  first.result["step"] = 123456789;
  first.result_at = now - 12s;
  first.tags = second.tags = {"team=vision", "paper"};
  first.experiment = {{"train", {{"optimizer", {{"lr", 0.1}}}}}};
  second.experiment = {{"train", {{"optimizer", {{"lr", 0.01}}}}}};
  for (const std::size_t width : {55u, 60u, 80u, 99u}) {
    std::ostringstream out;
    print_runs({first, second}, out, ui::Style(), width, now, Columns::all);
    for (const std::string& line : split(out.str(), '\n')) {
      CAPTURE(line);
      CHECK(ui::width_of(line) <= width);
    }
    CHECK_MESSAGE(out.str().find("1m30s  ") != std::string::npos, out.str());
  }
}

TEST_CASE("control sequences in the texts of a run do not reach the terminal") {
  RunStatus status = failed_run();
  status.run = "x\x1b[2J";
  status.why = "\x1b]0;gone\x07";
  status.first_failure->message = "\x1b[31mred";
  status.ranks[1].reason = "\x1b[31mred";
  status.result["metrics"]["a\x1b"] = 1;
  CHECK(shown(status, 120).find('\x1b') == std::string::npos);
  CHECK(progress_line(status).find('\x1b') == std::string::npos);
}

}  // namespace
