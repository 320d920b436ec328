// Sweeps on the live line of terminals, and hints with the flags of the cluster.
#include "cli/views/sweep_views.h"

#include <doctest/doctest.h>

#include "cli/ui/width.h"
#include "tests/unit/app/tree.h"

TEST_SUITE_BEGIN("app/sweep_views");

namespace {

using namespace mlk;
using namespace std::chrono_literals;

const Time bar_time = Time{} + std::chrono::hours(500000);

sweeps::SweepStatus sweep_in_the_middle() {
  sweeps::SweepStatus status;
  status.sweep = "digits-abcde";
  status.phase = Phase::running;
  status.started = bar_time - 100s;
  status.counts = {.waiting = 40, .running = 10, .succeeded = 45, .failed = 3, .stopped = 2};
  status.record.objective = sweeps::Objective{};
  status.record.objective->goal = sweeps::Objective::Goal::maximize;
  status.record.objective->metric = "accuracy";
  sweeps::Trial best;
  best.number = 12;
  best.state = sweeps::TrialState::succeeded;
  best.objective = 0.97123;
  status.trials.push_back(best);
  return status;
}

std::string times(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

std::string bar_at(std::size_t width, const sweeps::SweepStatus& status = sweep_in_the_middle()) {
  return progress_bar(status, width, bar_time);
}

}  // namespace

TEST_CASE("the live line of a sweep has a bar of 40 columns on a wide terminal") {
  CHECK(bar_at(200) ==
        times("█", 20) + times("▒", 4) + times("░", 16) +
            "  50/100  10 running  3 failed  2 stopped  best accuracy 0.9712 (12)  about 1m44s left");
}

TEST_CASE("the live line of a sweep shows only the most important parts if the terminal has 60 columns") {
  const std::string line = bar_at(60);
  CHECK(ui::width_of(line) == 60);
  CHECK(line.find("  50/100  3 failed  best accuracy 0.9712 (12)") != std::string::npos);
  CHECK(line.find("left") == std::string::npos);
  CHECK(line.find("stopped") == std::string::npos);
  CHECK(line.starts_with("█"));
}

TEST_CASE("the live line of a sweep is never wider than the terminal") {
  for (std::size_t width = 16; width <= 220; ++width) {
    INFO(width);
    CHECK(ui::width_of(bar_at(width)) <= width);
    CHECK(bar_at(width).find("  50/100") != std::string::npos);
  }
}

TEST_CASE("the live line of a sweep shows the phase and the reason if no trial runs") {
  sweeps::SweepStatus status;
  status.phase = Phase::scheduling;
  status.counts.waiting = 4;
  status.why = "trial 0: no node has room";
  CHECK(bar_at(200, status) == times("░", 40) + "  0/4  Scheduling  trial 0: no node has room");
  CHECK(bar_at(200, sweeps::SweepStatus{}).find("0/0") != std::string::npos);
}

TEST_CASE("a command in a hint repeats the flags that select the cluster") {
  test::Tree tree;
  const Session& session = tree.session;
  const std::string hint = "list them with: mlk results x-abcde";
  CHECK(session.with_flags(hint) == hint);
  tree.session.global.cluster.name_space = "team";
  tree.session.global.cluster.kubeconfig = "/my files/config";
  const std::string flags = " --kubeconfig '/my files/config' -n team";
  CHECK(session.command("ls") == "mlk ls" + flags);
  CHECK(session.with_flags(hint) == hint + flags);
  CHECK(session.with_flags(session.with_flags(hint)) == hint + flags);
  CHECK(session.with_flags("let it go on with: " + session.command("resume x")) ==
        "let it go on with: mlk resume x" + flags);
  CHECK(session.with_flags("see: mlk status x; or wait") == "see: mlk status x" + flags + "; or wait");
  CHECK(session.with_flags("see: mlk status x, or wait") == "see: mlk status x" + flags + ", or wait");
  for (const char* other : {"start it with: mlk local up", "list them with: mlk templates",
                            "see: mlk sweep --help", "give one of them", "", "mlk is a program"})
    CHECK(session.with_flags(other) == other);
}

TEST_CASE("a command in a hint has --local if --local or MLK_LOCAL selects the local cluster") {
  test::Tree tree;
  tree.env["MLK_LOCAL"] = "1";
  CHECK(tree.session.with_flags("see: mlk ls") == "see: mlk ls --local");
  tree.session.global.local = true;
  CHECK(tree.session.with_flags("see: mlk ls") == "see: mlk ls --local");
  tree.session.global.local = false;
  tree.env["MLK_LOCAL"] = "yes";  // mlk reports this mistake elsewhere
  CHECK(tree.session.with_flags("see: mlk ls") == "see: mlk ls");
}
