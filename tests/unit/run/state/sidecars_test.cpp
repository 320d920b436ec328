// Tests that other containers do not change the phase, state, exit code, metrics and logs of main.
#include <functional>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cli/run/facts/going_on.h"
#include "cli/run/facts/read_facts.h"
#include "cli/run/read/log_sources.h"
#include "cli/run/state/report.h"
#include "tests/unit/run/plain_run.h"

TEST_SUITE_BEGIN("run/state/sidecars");

namespace mlk {
namespace {

using json = nlohmann::json;

json main_ends(int code) {
  const std::string message = fmt::format("mlk step=7 loss=0.5\nmain says {}", code);
  return {{"terminated",
           {{"exitCode", code},
            {"reason", code == 0 ? "Completed" : "Error"},
            {"message", message},
            {"startedAt", "2026-01-03T11:00:02Z"},
            {"finishedAt", "2026-01-03T11:59:50Z"}}}};
}

json other_ends(int code) {
  return {{"terminated",
           {{"exitCode", code},
            {"message", "side says so"},
            {"startedAt", "2026-01-03T11:00:02Z"},
            {"finishedAt", "2026-01-03T11:59:52Z"}}}};
}

const json runs = {{"running", {{"startedAt", "2026-01-03T11:00:02Z"}}}};

// A run of one worker. Exit codes 1 to 128 of its program are final, other codes are tried again.
struct Pair {
  test::Run run;

  Pair() {
    run.objects.owner["metadata"]["annotations"]["mlk.dev/roles"] = R"({"worker":1})";
    run.objects.jobs.pop_back();
    run.objects.pods.resize(1);
    json& spec = run.job()["spec"];
    spec["completions"] = spec["parallelism"] = 1;
    json codes = json::array();
    for (int code = 1; code <= 128; ++code) codes.push_back(code);
    spec["podFailurePolicy"]["rules"] = {
        {{"action", "Ignore"}, {"onPodConditions", {{{"type", "DisruptionTarget"}, {"status", "True"}}}}},
        {{"action", "FailJob"},
         {"onExitCodes", {{"containerName", "main"}, {"operator", "In"}, {"values", codes}}}}};
  }
  json& pod() { return run.pod(0); }

  // `list`: containers or initContainers. `first`: before the existing entries.
  json& add(const std::string& list, const std::string& name, const json& state, bool first,
            bool restartable = false) {
    json& spec = pod()["spec"][list];
    json& states = pod()["status"][list == "containers" ? "containerStatuses" : "initContainerStatuses"];
    json container = {{"name", name}, {"image", name + ":1"}};
    if (restartable) container["restartPolicy"] = "Always";
    json status = {
        {"name", name}, {"state", state}, {"restartCount", 0}, {"started", state.contains("running")}};
    if (spec.is_null()) spec = json::array();
    if (states.is_null()) states = json::array();
    const std::size_t at = first ? 0 : states.size();
    spec.insert(first ? spec.begin() : spec.end(), container);
    states.insert(first ? states.begin() : states.end(), status);
    return states[at];
  }
  json& main() {
    for (json& status : pod()["status"]["containerStatuses"]) {
      if (status["name"] == "main") return status;
    }
    throw std::logic_error("no main");
  }
};

// The names of the containers whose logs are read. `wanted`: as in LogFilter.
std::vector<std::string> containers_to_read(const Pair& pair, const std::string& wanted) {
  LogFilter filter;
  filter.container = wanted;
  std::vector<std::string> names;
  for (const auto& [source, pod] : choose_sources(pair.run.objects.pods, filter))
    names.push_back(source.container);
  return names;
}

struct Side {
  const char* what;
  json state;
  bool crash_loops = false;
  bool restartable_only = false;
};

const std::vector<Side>& sides() {
  static const std::vector<Side> all = {
      {"ends with 0", other_ends(0)},
      {"ends with 3", other_ends(3)},
      {"ends with 143", other_ends(143)},
      {"is killed", other_ends(137)},
      {"crash-loops", {{"waiting", {{"reason", "CrashLoopBackOff"}, {"message", "back-off"}}}}, true},
      {"is never ready, and stays", runs},
      {"does not start", {{"waiting", {{"reason", "ErrImagePull"}, {"message", "no host"}}}}}};
  return all;
}

// The phase that the kubelet reports for a pod with this status: Pending while a container waits for its
// first start, and Running while a container runs or is restarted.
std::string phase_of_pod(const json& status) {
  bool waits = false, runs_on = false, failed = false;
  for (const json& each : status["containerStatuses"]) {
    waits = waits || (each["state"].contains("waiting") && !each.contains("lastState"));
    runs_on = runs_on || each["state"].contains("running") || each["state"].contains("waiting");
    failed = failed || each["state"].value("/terminated/exitCode"_json_pointer, 0) != 0;
  }
  if (waits) return "Pending";
  if (runs_on) return "Running";
  return failed ? "Failed" : "Succeeded";
}

TEST_CASE("the phase and exit code of a run come from `main`, not from a container beside `main`") {
  int situations = 0;
  for (const bool by_name_first : {true, false}) {
    for (const bool first : {true, false}) {
      for (const bool restartable : {true, false}) {
        for (const Side& side : sides()) {
          for (const int code : {0, 3, 137, -1}) {
            if (side.crash_loops && !restartable) continue;  // restartPolicy: Never
            Pair pair;
            const std::string name = by_name_first ? "agent" : "proxy";
            json& status =
                pair.add(restartable ? "initContainers" : "containers", name, side.state, first, restartable);
            if (restartable) status["started"] = true;
            if (side.crash_loops) status["lastState"] = other_ends(1);
            pair.main()["state"] = code < 0 ? runs : main_ends(code);
            json& pod = pair.pod();
            const std::string phase = phase_of_pod(pod["status"]);
            pod["status"]["phase"] = phase;
            pod["status"]["conditions"] = {
                {{"type", "Ready"}, {"status", "False"}, {"reason", "ContainersNotReady"}},
                {{"type", "ContainersReady"}, {"status", "False"}}};
            if (phase == "Failed" && code == 3) pair.run.condition("Failed", "PodFailurePolicy");
            if (phase == "Failed" && code == 0) pair.run.condition("Failed", "BackoffLimitExceeded");
            CAPTURE(by_name_first);
            CAPTURE(first);
            CAPTURE(restartable);
            CAPTURE(side.what);
            CAPTURE(code);
            ++situations;

            const RunStatus seen = pair.run.observed();
            const RankStatus& rank = seen.ranks.at(0);
            const bool pod_waits = code >= 0 && (phase == "Running" || phase == "Pending");
            CHECK(rank.meanwhile ==
                  (pod_waits ? fmt::format("the program has ended ({}), its pod waits for container {}",
                                           code == 137 ? "killed by signal 9 (SIGKILL)"
                                                       : fmt::format("exit code {}", code),
                                           name)
                             : ""));
            if (code < 0) {
              CHECK(seen.phase == Phase::running);
              CHECK(rank.state == "Running");
            } else if (code == 0) {
              CHECK(seen.phase == Phase::succeeded);
              CHECK(rank.state == "Succeeded");
            } else if (code == 3) {
              CHECK(seen.phase == Phase::failed);
              CHECK(rank.state == "Failed");
              CHECK(seen.why == "worker/0: exit code 3: main says 3");
            } else {
              CHECK(seen.phase == Phase::restarting);
              CHECK(rank.state == "Failed");
              CHECK(seen.last_failure->next.has_value() == (phase == "Failed"));
            }
            CHECK(seen.last_failure.has_value() == (code > 0));
            if (code > 0) {
              CHECK(seen.last_failure->exit_code == code);
              CHECK(seen.last_failure->container.empty());
              CHECK(seen.last_failure->message.ends_with(fmt::format("main says {}", code)));
              CHECK(seen.result["step"] == 7);
            }
            const auto sources = choose_sources(pair.run.objects.pods, {});
            REQUIRE(sources.size() == 1);
            CHECK(sources[0].first.container == "main");
            CHECK(sources[0].first.who.container.empty());
            for (const LogToRead& log : logs_to_read(pair.run.objects)) CHECK(log.container == "main");
            CHECK(read_facts(pair.run.objects).pods.at(0).image == "image:1");
          }
        }
      }
    }
  }
  CHECK(situations >= 96);
}

TEST_CASE("a failed container beside `main` does not cause another try of `main`") {
  Pair pair;
  pair.add("containers", "agent", other_ends(2), true);
  pair.main()["state"] = main_ends(0);
  pair.pod()["status"]["phase"] = "Failed";
  RunStatus seen = pair.run.observed();
  CHECK(seen.phase == Phase::succeeded);
  CHECK(seen.why == "worker/0: container agent: exit code 2: side says so");
  CHECK(seen.ranks.at(0).reason == "container agent: exit code 2: side says so");
  // Meanwhile the Job has made another pod.
  pair.run.add_pod("worker", 0, "2026-01-03T11:59:59Z");
  seen = pair.run.observed();
  CHECK(seen.phase == Phase::succeeded);
  CHECK(seen.ranks.at(0).state == "Succeeded");
  CHECK(jobs_going_on(pair.run.objects) == std::vector<std::string>{"r-worker"});

  // The rank failed while other ranks continue, so the Job fails because of this rank.
  test::Run three;
  json& pod = three.pod(1);
  pod["spec"]["containers"].push_back({{"name", "agent"}});
  pod["status"]["containerStatuses"] = {{{"name", "main"}, {"state", main_ends(0)}},
                                        {{"name", "agent"}, {"state", other_ends(2)}}};
  pod["status"]["phase"] = "Failed";
  CHECK(three.phase() == "Running");
  three.condition("Failed", "FailedIndexes");
  three.job()["status"]["failedIndexes"] = "1";
  CHECK(three.phase() == "Failed");
  CHECK(three.why() == "worker/1: container agent: exit code 2: side says so (4 of 4 tries failed)");
  CHECK(three.observed().first_failure->container == "agent");
}

// A pod whose program ends with exit code 0 at 11:59:50, and whose agent ends with 143 at 11:59:52.
struct PairWithAgent : Pair {
  PairWithAgent() {
    add("containers", "agent", other_ends(143), false);
    main()["state"] = main_ends(0);
    pod()["status"]["phase"] = "Failed";
  }
  void delete_by(const char* deadline) {
    pod()["metadata"]["deletionTimestamp"] = deadline;
    pod()["metadata"]["deletionGracePeriodSeconds"] = 30;
  }
  void disrupt(const char* reason, const char* at) {
    pod()["status"]["conditions"] = {
        {{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", reason}, {"lastTransitionTime", at}}};
  }
  bool is_done() const { return read_facts(run.objects).pods.at(0).done; }
};

TEST_CASE("if a pod is asked to end, and its program then ends with 0, the program does not count as done") {
  const auto done = [](const std::function<void(PairWithAgent&)>& change) {
    PairWithAgent pair;
    change(pair);
    return pair.is_done();
  };
  CHECK(done([](PairWithAgent&) {}));
  CHECK(done([](PairWithAgent& pair) { pair.delete_by("2026-01-03T12:00:20Z"); }));  // requested at 11:59:50
  CHECK_FALSE(done([](PairWithAgent& pair) { pair.delete_by("2026-01-03T12:00:19Z"); }));  // a second before
  CHECK_FALSE(done([](PairWithAgent& pair) { pair.pod()["status"]["reason"] = "DeadlineExceeded"; }));
  CHECK_FALSE(done([](PairWithAgent& pair) { pair.disrupt("x", ""); }));
  CHECK_FALSE(done([](PairWithAgent& pair) { pair.main()["state"] = main_ends(1); }));
  CHECK_FALSE(done([](PairWithAgent& pair) { pair.main()["state"] = runs; }));
}

TEST_CASE("if a pod is disrupted only after its program has ended with 0, the program counts as done") {
  const auto done = [](const char* disrupted) {
    PairWithAgent pair;
    pair.disrupt("EvictionByEvictionAPI", disrupted);
    return pair.is_done();
  };
  CHECK(done("2026-01-03T11:59:55Z"));
  CHECK(done("2026-01-03T11:59:51Z"));
  CHECK_FALSE(done("2026-01-03T11:59:50Z"));
  CHECK_FALSE(done("2026-01-03T11:59:45Z"));
  // Its node is gone, so the agent reports no end.
  PairWithAgent pair;
  pair.pod()["status"]["containerStatuses"][1]["state"] = runs;
  pair.disrupt("DeletionByPodGC", "2026-01-03T11:59:55Z");
  CHECK(pair.is_done());
  CHECK(pair.run.phase() == "Succeeded");
  // Meanwhile the Job has made another pod.
  pair.run.add_pod("worker", 0, "2026-01-03T11:59:59Z");
  CHECK(pair.run.phase() == "Succeeded");
  CHECK(pair.run.state(0) == "Succeeded");
  pair.delete_by("2026-01-03T12:00:19Z");  // the deletion at 11:59:49 was before the disruption
  CHECK_FALSE(pair.is_done());
  CHECK(pair.run.phase() == "Running");
}

TEST_CASE("a program does not count as done if it ended with 0 while the kubelet ended its pod") {
  // The kubelet reports the disruption after the end of the last container. The grace period is 30 s.
  const auto done = [](const char* agent_ended, int grace) {
    PairWithAgent pair;
    pair.pod()["status"]["containerStatuses"][1]["state"]["terminated"]["finishedAt"] = agent_ended;
    pair.pod()["status"]["reason"] = "Terminated";
    pair.pod()["spec"]["terminationGracePeriodSeconds"] = grace;
    pair.disrupt("TerminationByKubelet", "2026-01-03T12:05:00Z");
    return pair.is_done();
  };
  CHECK_FALSE(done("2026-01-03T11:59:52Z", 30));
  CHECK_FALSE(done("2026-01-03T12:01:20Z", 30));
  CHECK(done("2026-01-03T12:01:21Z", 30));
  CHECK_FALSE(done("2026-01-03T12:01:21Z", 31));
  CHECK(done("2026-01-03T12:01:21Z", 0));
}

TEST_CASE("the end of a pod counts even if the pod was made one second before the start of its Job") {
  // At a resume the controller makes the pods, and then sets the start in whole seconds.
  Pair pair;
  pair.run.job()["status"]["startTime"] = "2026-01-03T11:00:02Z";
  REQUIRE(pair.pod()["metadata"]["creationTimestamp"] == "2026-01-03T11:00:01Z");
  pair.add("containers", "agent", runs, false);
  pair.main()["state"] = main_ends(0);
  CHECK(pair.run.phase() == "Succeeded");
  pair.main()["state"] = main_ends(3);
  CHECK(pair.run.phase() == "Failed");

  test::Run run;
  run.job()["status"]["startTime"] = "2026-01-03T11:00:02Z";
  run.condition("Failed", "FailedIndexes");
  run.job()["status"]["failedIndexes"] = "1";
  run.fail(run.pod(1), 3);
  REQUIRE(run.observed().first_failure);
  CHECK(run.observed().first_failure->exit_code == 3);
  CHECK(run.why() == "worker/1: exit code 3 (4 of 4 tries failed)");
}

TEST_CASE("the reason of a run names the init container that failed") {
  Pair pair;
  pair.add("initContainers", "first", other_ends(0), false);
  json& fetch = pair.add("initContainers", "fetch", other_ends(128), false);
  fetch["state"]["terminated"]["message"] = "cloning\nfatal: repository not found\n";
  pair.main()["state"] = {{"waiting", {{"reason", "PodInitializing"}}}};
  pair.pod()["status"]["phase"] = "Pending";
  const std::string said = "init container fetch: exit code 128: fatal: repository not found";
  CHECK(pair.run.why() == "worker/0: " + said);
  CHECK(containers_to_read(pair, "") == std::vector<std::string>{"fetch", "main"});
  pair.pod()["status"]["phase"] = "Failed";
  RunStatus seen = pair.run.observed();
  CHECK(seen.phase == Phase::restarting);  // the exit code is that of an init container, not of the program
  CHECK(seen.why == "worker/0: " + said + " (try 1 of 4, next in 2s)");
  CHECK_FALSE(seen.started);
  REQUIRE(seen.last_failure);
  CHECK(seen.last_failure->container == "fetch");
  CHECK(seen.last_failure->exit_code == 128);
  CHECK(containers_to_read(pair, "") == std::vector<std::string>{"fetch"});
  CHECK(choose_sources(pair.run.objects.pods, {}).at(0).first.who.container == "fetch");
  pair.pod()["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = "3";
  CHECK(pair.run.observed().why.find("next") == std::string::npos);
  // If the status has no last words, the last words are taken from the log.
  pair.pod()["status"]["initContainerStatuses"][1]["state"]["terminated"].erase("message");
  CHECK(pair.run.observed().last_failure->message.empty());
  pair.run.objects.last_words[last_words_key("r-worker-0-0", "fetch")] = "fatal: of the log\n";
  CHECK(pair.run.observed().last_failure->message == "fatal: of the log");
}

TEST_CASE("the container that keeps `main` from starting is shown with its name") {
  const auto why = [](const json& state, bool restartable, const json& last = nullptr, bool started = false) {
    Pair pair;
    json& status = pair.add("initContainers", "fetch", state, false, restartable);
    status["started"] = started;
    if (!last.is_null()) {
      status["lastState"] = last;
      status["restartCount"] = 5;
    }
    pair.main()["state"] = {{"waiting", {{"reason", "PodInitializing"}}}};
    pair.pod()["status"]["phase"] = "Pending";
    return pair.run.why();
  };
  const json waits = {{"waiting", {{"reason", "ErrImagePull"}, {"message", "no host"}}}};
  const json loops = {{"waiting", {{"reason", "CrashLoopBackOff"}}}};
  CHECK(why(waits, false) == "worker/0: init container fetch: image fetch:1 cannot be pulled: no host");
  CHECK(why(waits, true) == "worker/0: container fetch: image fetch:1 cannot be pulled: no host");
  CHECK(why(runs, false) == "worker/0: waits for init container fetch");
  CHECK(why(runs, true) == "worker/0: waits for container fetch");
  CHECK(why(runs, true, nullptr, true).empty());
  CHECK(why(loops, true, other_ends(1)) ==
        "worker/0: container fetch: exit code 1: side says so (started again 5 times)");
}

TEST_CASE("if a program could not be started, the reason of the run says so in each phase of the pod") {
  Pair pair;
  json end = main_ends(128);
  end["terminated"]["reason"] = "StartError";
  end["terminated"]["startedAt"] = "1970-01-01T00:00:00Z";
  end["terminated"]["message"] =
      "failed to create task: exec: \"/no/such/program\": no such file or directory: unknown";
  pair.main()["state"] = end;
  const std::string said =
      "worker/0: the program could not be started: \"/no/such/program\": no such file or directory";
  for (const char* phase : {"Pending", "Running", "Failed"}) {
    pair.pod()["status"]["phase"] = phase;
    CAPTURE(phase);
    CHECK(pair.run.why().ends_with(said));
    CHECK_FALSE(pair.run.observed().started);
  }
}

TEST_CASE("if a container crash-loops beside a running `main`, it is shown with its exit code") {
  Pair pair;
  json& proxy =
      pair.add("initContainers", "proxy", {{"waiting", {{"reason", "CrashLoopBackOff"}}}}, true, true);
  proxy["lastState"] = other_ends(1);
  proxy["restartCount"] = 3;
  proxy["started"] = false;  // between two starts
  CHECK(pair.run.phase() == "Running");
  CHECK(pair.run.why() == "worker/0: container proxy: exit code 1: side says so (started again 3 times)");
  CHECK(pair.run.observed().ranks.at(0).state == "Running");
}

TEST_CASE("a reason is not recorded if it only says that a pod waits for another container") {
  Pair pair;
  pair.add("containers", "agent", runs, true);
  pair.main()["state"] = main_ends(0);
  pair.pod()["status"]["phase"] = "Running";
  const RunStatus seen = pair.run.observed();
  const std::string sentence = "the program has ended (exit code 0), its pod waits for container agent";
  CHECK(seen.why == "worker/0: " + sentence);
  CHECK(to_json(seen)["ranks"][0]["reason"] == sentence);
  CHECK(to_record(seen)["why"] == "");
  CHECK(to_record(seen)["ranks"][0]["reason"] == "");
  CHECK_FALSE(has_running_programs(pair.run.objects, test::now));
  using std::chrono::seconds;
  CHECK(is_settling(pair.run.objects, test::now, seconds(10), seconds(75)));
  CHECK_FALSE(is_settling(pair.run.objects, test::now, seconds(11), seconds(75)));
  CHECK(has_live_pods(pair.run.objects, test::now));
}

TEST_CASE("is_settling() is true for a while if the program has ended but its pod has not") {
  using std::chrono::seconds;
  Pair pair;
  json& status = pair.pod()["status"];
  const auto settles = [&](int since) {
    return is_settling(pair.run.objects, test::now, seconds(since), seconds(75));
  };
  status["phase"] = "Running";
  status["containerStatuses"][0]["state"] = runs;
  CHECK(settles(75));
  CHECK_FALSE(settles(76));
  for (const int code : {0, 3}) {
    status["phase"] = "Running";
    status["containerStatuses"][0]["state"] = main_ends(code);
    CHECK(settles(0));
    CHECK(settles(85));  // the program may have run for the first 75 s
    CHECK_FALSE(settles(86));
    status["phase"] = code == 0 ? "Succeeded" : "Failed";
    CHECK_FALSE(settles(0));
  }
}

TEST_CASE("is_settling() is true for 30 s if a pod was being started on its node when the run ended") {
  using std::chrono::seconds;
  Pair pair;
  json& pod = pair.pod();
  pod["spec"]["nodeName"] = "n1";
  pod["status"]["phase"] = "Pending";
  json& state = pod["status"]["containerStatuses"][0]["state"];
  const auto settles = [&](int since, int patience = 75) {
    return is_settling(pair.run.objects, test::now, seconds(since), seconds(patience));
  };
  for (const char* reason : {"ContainerCreating", "PodInitializing"}) {
    state = {{"waiting", {{"reason", reason}}}};
    CHECK(settles(30));
    CHECK_FALSE(settles(31));
    CHECK(settles(10, 10));
    CHECK_FALSE(settles(11, 10));
  }
  state = {{"waiting", {{"reason", "ImagePullBackOff"}}}};
  CHECK_FALSE(settles(0));
  state = {{"waiting", {{"reason", "ContainerCreating"}}}};
  pod["spec"].erase("nodeName");
  CHECK_FALSE(settles(0));
  pod["spec"]["nodeName"] = "n1";
  CHECK(settles(0));
  pod["metadata"]["deletionTimestamp"] = "2026-07-21T12:00:00Z";
  CHECK_FALSE(settles(0));
}

TEST_CASE("the only container of a pod counts as `main`") {
  CHECK(main_container_of({{"spec", {{"containers", {{{"name", "trainer"}}}}}}}) == "trainer");
  CHECK(main_container_of({{"spec", {{"containers", {{{"name", "a"}}, {{"name", "b"}}}}}}}) == "main");
  CHECK(main_container_of(json::object()) == "main");
}

TEST_CASE("choose_sources() returns the requested container if the pod has it") {
  Pair pair;
  pair.add("containers", "agent", runs, true);
  pair.add("initContainers", "fetch", other_ends(0), true);
  CHECK(containers_to_read(pair, "") == std::vector<std::string>{"main"});
  CHECK(containers_to_read(pair, "main") == std::vector<std::string>{"main"});
  CHECK(containers_to_read(pair, "agent") == std::vector<std::string>{"agent"});
  CHECK(containers_to_read(pair, "fetch") == std::vector<std::string>{"fetch"});
  CHECK(containers_to_read(pair, "nope").empty());
  CHECK(container_names(pair.run.objects.pods) == std::vector<std::string>{"main", "fetch", "agent"});
}

}  // namespace
}  // namespace mlk
