#include "cli/run/read/log_warnings.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

TEST_SUITE_BEGIN("run/read/log_warnings");

namespace mlk {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Texts = std::vector<std::string>;

TEST_CASE("a log seems cut if earlier lines at the same rate would have filled the node's file") {
  struct Row {
    LogShape shape;
    bool cut;
  };
  const std::size_t mib = 1u << 20;
  for (const Row& row : std::vector<Row>{
           {{3 * mib, seconds(27), seconds(3)}, true},
           {{mib, seconds(8), seconds(1)}, true},
           {{mib, milliseconds(7999), seconds(1)}, false},
           {{mib, seconds(8), milliseconds(1001)}, false},
           {{mib, seconds(8), milliseconds(1)}, true},  // a burst counts as a second
           {{mib / 2, seconds(8), milliseconds(1)}, false},
           {{1000, seconds(60), seconds(10)}, false},  // a slow start and a low rate
           {{10 * mib, seconds(0), seconds(10)}, false},
           {{10 * mib, seconds(-1), seconds(10)}, false},  // the clocks differ
       }) {
    CAPTURE(row.shape.bytes);
    CAPTURE(row.shape.before.count());
    CHECK(seems_cut(row.shape) == row.cut);
  }
}

TEST_CASE("a log is reported as lost if the rank has run but its pods are gone") {
  std::vector<nlohmann::json> pods = {
      {{"metadata",
        {{"name", "a"},
         {"uid", "u-a"},
         {"labels", {{"mlk.dev/role", "worker"}}},
         {"annotations", {{"batch.kubernetes.io/job-completion-index", "0"}}}}}}};
  RunStatus status;
  status.phase = Phase::running;
  const auto rank = [](int number, const std::string& state, int restarts = 0) {
    RankStatus one;
    one.role = "worker";
    one.rank = number;
    one.state = state;
    one.restarts = restarts;
    return one;
  };
  status.ranks = {rank(0, "Running"), rank(1, "Pending"), rank(2, "Missing", 1), rank(3, "Succeeded")};
  CHECK(lost_logs(status, pods, {}) == Texts{"the log of worker/2 is gone: its pod was deleted",
                                             "the log of worker/3 is gone: its pod was deleted"});
  CHECK(lost_logs(status, pods, {.rank = 3}).size() == 1);
  CHECK(lost_logs(status, pods, {.role = "server"}).empty());
  status.phase = Phase::failed;
  CHECK(lost_logs(status, pods, {}).size() == 2);  // the run never started, so the rank may have had no pod
  status.started = Time{};
  CHECK(lost_logs(status, pods, {}).size() == 3);
  status.ranks.push_back(rank(4, "Failed"));
  CHECK(lost_logs(status, pods, {}) ==
        Texts{"the logs of 4 ranks, such as worker/1, are gone: their pods were deleted"});
  pods.clear();
  CHECK(lost_logs(status, pods, {.rank = 0}) == Texts{"the log of worker/0 is gone: its pod was deleted"});
  status.phase = Phase::stopped;
  CHECK(lost_logs(status, pods, {.rank = 0}) ==
        Texts{"the log of worker/0 is gone: its pod was deleted when the run was stopped"});
}

TEST_CASE("a log that does not arrive is reported after 10 seconds") {
  using Clock = LogWarnings::Clock;
  const auto at = [](int second) { return Clock::time_point{} + seconds(second); };
  LogWarnings warnings;
  const std::vector<LogProblem> two = {{"a", "n1", "broke"}, {"b", "n1", "broke"}};
  CHECK(warnings.due(two, at(0)).empty());
  CHECK(warnings.due({}, at(5)).empty());  // the log arrived again
  CHECK(warnings.due(two, at(6)).empty());
  CHECK(warnings.due(two, at(15)).empty());
  CHECK(warnings.due(two, at(16)) == Texts{"no logs of 2 pods, such as a, on node n1: broke"});
  CHECK(warnings.due(two, at(60)).empty());
  CHECK(sentences_of({{"a", "", "full"}, {"b", "", "full"}}) == Texts{"no logs of 2 pods, such as a: full"});
  const std::vector<LogProblem> other = {{"a", "n2", "broke"}, {"c", "", "full"}};
  CHECK(warnings.due(other, at(61)).empty());
  CHECK(warnings.due(other, at(71)) == Texts{"no logs of a on node n2: broke", "no logs of c: full"});
  CHECK(warnings.due(two, at(100)).empty());
  CHECK(warnings.due(two, at(111)).empty());  // reported before
  CHECK(warnings.rest(two).empty());
  CHECK(warnings.rest({{"d", "n1", "lost"}}) == Texts{"no logs of d on node n1: lost"});
}

TEST_CASE("three lost logs get a sentence each, but four lost logs share one sentence") {
  RunStatus status;
  status.phase = Phase::failed;
  status.started = Time{};
  const auto lost = [&](int ranks) {
    status.ranks.clear();
    for (int rank = 0; rank < ranks; ++rank) {
      RankStatus one;
      one.role = "worker";
      one.rank = rank;
      status.ranks.push_back(one);
    }
    return lost_logs(status, {}, {});
  };
  CHECK(lost(0).empty());
  CHECK(lost(3).size() == 3);
  CHECK(lost(4) == Texts{"the logs of 4 ranks, such as worker/0, are gone: their pods were deleted"});
  status.phase = Phase::stopped;
  CHECK(lost(4) == Texts{"the logs of 4 ranks, such as worker/0, are gone: their pods were deleted when the "
                         "run was stopped"});
  status.phase = Phase::running;
  CHECK(lost(4).empty());
}

TEST_CASE("the lost log of a rank is reported even if another role has a pod with the same rank") {
  RunStatus status;
  status.phase = Phase::succeeded;
  status.started = Time{};
  for (const char* role : {"worker", "server"}) {
    RankStatus one;
    one.role = role;
    status.ranks.push_back(one);
  }
  const std::vector<nlohmann::json> pods = {
      {{"metadata", {{"name", "a"}, {"uid", "a"}, {"labels", {{"mlk.dev/role", "worker"}}}}}}};
  CHECK(lost_logs(status, pods, {}) == Texts{"the log of server/0 is gone: its pod was deleted"});
  CHECK(lost_logs(status, pods, {.role = "worker"}).empty());
  CHECK(lost_logs(status, {}, {.role = "worker"}).size() == 1);
}

TEST_CASE("said_by_node() names the node, or the pod if the node is unknown") {
  CHECK(said_by_node("n1", "a", "full") == "node n1: full");
  CHECK(said_by_node("", "a", "full") == "a: full");
}

TEST_CASE("a cause that stops logs on two nodes is reported for each node") {
  CHECK(sentences_of({{"a", "n1", "full"}, {"b", "n1", "slow"}, {"c", "n2", "full"}}) ==
        Texts{"no logs of a on node n1: full", "no logs of c on node n2: full",
              "no logs of b on node n1: slow"});
  CHECK(sentences_of({}).empty());
}

}  // namespace
}  // namespace mlk
