// Tests the ledger of a sweep on a cluster, also with several processes that write.
#include "sweeps/objects/ledger_store.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "sweeps/space/ledger.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("sweeps/objects/ledger_store");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

Trial stored_trial(int number, TrialState state, const std::string& failure = "") {
  Trial trial;
  trial.number = number;
  trial.point = {{"lr", number}};
  trial.hash = hash_of(trial.point);
  trial.state = state;
  trial.tries = 1;
  trial.failure = failure;
  return trial;
}

struct StoredLedger {
  test::FakeCluster cluster;
  kube::Client client{cluster.config()};
  json owner = test::owner_of("s-abcde", "s");
  std::string problem;

  StoredLedger() { owner["metadata"]["uid"] = "u"; }
  std::vector<json> maps() { return cluster.ask("GET", test::config_maps_path)["items"]; }
  bool write(const std::vector<Trial>& trials, const std::vector<json>& maps) {
    problem.clear();
    std::map<int, Trial> known;
    for (const Trial& trial : read_ledger("s-abcde", maps)) known[trial.number] = trial;
    return write_ledger(client, "default", owner, maps, trials, known, &problem);
  }
  bool write(const std::vector<Trial>& trials) { return write(trials, maps()); }
  // The numbers and states of all stored trials.
  std::string stored() {
    std::string out;
    for (const Trial& trial : read_ledger("s-abcde", maps()))
      out += std::to_string(trial.number) + std::string(to_string(trial.state)).substr(0, 2) + " ";
    return out;
  }
  // Counts the requests that write, and refuses the requests with this method.
  std::atomic<int> writes{0};
  void count(int code = 0, const std::string& method = "") {
    cluster.before([this, code, method](const local::Request& asked) -> std::optional<local::Answer> {
      if (asked.method == "GET") return std::nullopt;
      ++writes;
      if (asked.method != method) return std::nullopt;
      return test::refusal(code, "Refused", "not now");
    });
  }
};

}  // namespace

TEST_CASE("the ledger stores a trial when the trial has ended for good") {
  StoredLedger ledger;
  CHECK(ledger.write({stored_trial(0, TrialState::waiting), stored_trial(1, TrialState::running),
                      stored_trial(2, TrialState::succeeded), stored_trial(3, TrialState::failed),
                      stored_trial(4, TrialState::stopped),  // continues when the sweep is resumed
                      stored_trial(5, TrialState::stopped, "stopped early")}));
  CHECK(ledger.stored() == "2Su 3Fa 5St ");
  CHECK(ledger.problem == "");
}

TEST_CASE("a trial in the ledger is written again if it has changed") {
  StoredLedger ledger;
  Trial trial = stored_trial(0, TrialState::failed, "exit code 1");
  REQUIRE(ledger.write({trial}));
  ledger.count();
  CHECK(ledger.write({trial}));
  CHECK(ledger.writes == 0);
  trial.tries = 2;
  CHECK(ledger.write({trial, stored_trial(1, TrialState::failed)}));
  CHECK(ledger.writes == 1);
  CHECK(read_ledger("s-abcde", ledger.maps())[0].tries == 2);
  CHECK(ledger.stored() == "0Fa 1Fa ");
}

TEST_CASE("each ConfigMap of the ledger has the lines of 64 trials, in the order of their numbers") {
  StoredLedger ledger;
  std::vector<Trial> trials;
  for (const int number : {0, 63, 64, 127, 128})
    trials.push_back(stored_trial(number, TrialState::succeeded));
  ledger.count();
  CHECK(ledger.write(trials));
  CHECK(ledger.writes == 3);
  const auto lines_in = [&](const std::string& name) {
    const json map = ledger.cluster.ask("GET", test::config_maps_path + "/" + name);
    const std::string text = map["data"]["trials.jsonl"];
    return std::count(text.begin(), text.end(), '\n');
  };
  CHECK(lines_in("s-abcde-ledger-0") == 2);
  CHECK(lines_in("s-abcde-ledger-1") == 2);
  CHECK(lines_in("s-abcde-ledger-2") == 1);
  CHECK(lines_of_ledger("s-abcde", ledger.maps()) == 5);
  const json map = ledger.cluster.ask("GET", test::config_maps_path + "/s-abcde-ledger-0");
  CHECK(map["metadata"]["labels"]["mlk.dev/sweep"] == "s-abcde");
  CHECK(map["metadata"]["ownerReferences"][0]["uid"] == "u");
}

TEST_CASE("read_ledger() ignores a ConfigMap that is not part of this sweep's ledger") {
  const auto map = [](const std::string& name) {
    return json{{"metadata", {{"name", name}}},
                {"data", {{"trials.jsonl", to_line(stored_trial(3, TrialState::failed)) + "\n"}}}};
  };
  CHECK(read_ledger("s-abcde", {map("s-abcde-ledger-0")}).size() == 1);
  CHECK(lines_of_ledger("s-abcde", {map("s-abcde-ledger-0"), map("s-abcde-ledger-12")}) == 2);
  for (const char* name : {"s-abcde-ledger-", "s-abcde-ledger-x", "s-abcde-ledger--1", "s-abcde-trials-0",
                           "other-ledger-0", "s-abcde"}) {
    CHECK_MESSAGE(read_ledger("s-abcde", {map(name)}).empty(), name);
    CHECK_MESSAGE(lines_of_ledger("s-abcde", {map(name)}) == 0, name);
  }
}

TEST_CASE("a write keeps the lines that another process has added to the ledger meanwhile") {
  StoredLedger ledger;
  const std::vector<json> before = ledger.maps();
  REQUIRE(ledger.write({stored_trial(0, TrialState::succeeded)}, before));
  CHECK(ledger.write({stored_trial(1, TrialState::failed)}, before));  // the first write is refused
  CHECK(ledger.stored() == "0Su 1Fa ");
  const std::vector<json> two = ledger.maps();
  REQUIRE(ledger.write({stored_trial(2, TrialState::failed)}, two));
  Trial better = stored_trial(2, TrialState::succeeded);
  CHECK(ledger.write({better, stored_trial(3, TrialState::failed)}, two));
  CHECK(ledger.stored() == "0Su 1Fa 2Su 3Fa ");
}

TEST_CASE("a write creates a ConfigMap of the ledger again if it was deleted meanwhile") {
  StoredLedger ledger;
  REQUIRE(ledger.write({stored_trial(0, TrialState::succeeded)}));
  const std::vector<json> before = ledger.maps();
  ledger.cluster.ask("DELETE", test::config_maps_path + "/s-abcde-ledger-0");
  CHECK(ledger.write({stored_trial(1, TrialState::failed)}, before));
  CHECK(ledger.stored() == "1Fa ");
}

TEST_CASE("a write of the ledger gives up after five tries if other processes change the ledger each time") {
  StoredLedger ledger;
  REQUIRE(ledger.write({stored_trial(0, TrialState::succeeded)}));
  ledger.count(409, "PATCH");
  CHECK_FALSE(ledger.write({stored_trial(1, TrialState::failed)}));
  CHECK(ledger.writes == 5);
  CHECK(ledger.problem == "configmap/s-abcde-ledger-0 is changed by others all the time");
}

TEST_CASE("a write of the ledger continues with the other ConfigMaps if the server refuses one") {
  StoredLedger ledger;
  REQUIRE(ledger.write({stored_trial(0, TrialState::succeeded)}));
  ledger.count(403, "PATCH");
  CHECK_FALSE(ledger.write({stored_trial(1, TrialState::failed), stored_trial(64, TrialState::failed)}));
  CHECK(ledger.problem.find("not now") != std::string::npos);
  CHECK(ledger.stored() == "0Su 64Fa ");
  const std::map<int, Trial> none;
  CHECK_FALSE(write_ledger(ledger.client, "default", ledger.owner, ledger.maps(),
                           {stored_trial(1, TrialState::failed)}, none));
}

TEST_CASE("write_lines() also writes the lines of trials that have not ended") {
  StoredLedger ledger;
  CHECK(write_lines(ledger.client, "default", ledger.owner, {}, {stored_trial(1, TrialState::running)}));
  CHECK(ledger.stored() == "1Ru ");
  CHECK(write_lines(ledger.client, "default", ledger.owner, {}, {}));
}
