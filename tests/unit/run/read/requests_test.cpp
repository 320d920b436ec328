// Tests the requests that mlk sends to a simulated server, and the effect of refused requests.
#include <functional>
#include <map>
#include <mutex>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/run/change/write_record.h"
#include "cli/run/read/find.h"
#include "cli/run/read/log_follower.h"
#include "cli/run/read/run_logs.h"
#include "cli/run/state/record.h"
#include "tests/unit/kube/fake_server.h"
#include "tests/unit/run/read/whole_logs.h"

TEST_SUITE_BEGIN("run/read/requests");

namespace mlk {
namespace {

using json = nlohmann::json;

constexpr char in_lab[] = "/api/v1/namespaces/lab/";

// Answers each path with its configured answer, and all other paths with an empty list.
struct Cluster {
  struct Answer {
    int status;
    std::string body;
  };
  std::mutex mutex;
  std::map<std::string, Answer> answers;
  std::vector<std::string> targets, bodies;
  FakeServer server;  // declared last: its handlers use the members above

  Cluster() {
    const auto handler = [this](const httplib::Request& request, httplib::Response& response) {
      const std::lock_guard lock(mutex);
      targets.push_back(request.target);
      bodies.push_back(request.body);
      const auto found = answers.find(request.path);
      if (found == answers.end()) return answer(response, 200, R"({"items":[]})");
      answer(response, found->second.status, found->second.body);
    };
    server.http->Get(".*", handler);
    server.http->Patch(".*", handler);
  }
  std::vector<std::string> seen() {
    const std::lock_guard lock(mutex);
    return targets;
  }
  // Whether there was a request for this path that contains `part`.
  bool asked(const std::string& path, const std::string& part = "") {
    for (const std::string& target : seen()) {
      if (target.starts_with(path) && target.find(part) != std::string::npos) return true;
    }
    return false;
  }
};

json pod(int rank, int failures_before = 0) {
  const std::string name = "r-worker-" + std::to_string(rank);
  return {{"metadata",
           {{"name", name},
            {"uid", "u-" + name},
            {"labels", {{"mlk.dev/role", "worker"}}},
            {"annotations",
             {{"batch.kubernetes.io/job-completion-index", std::to_string(rank)},
              {"batch.kubernetes.io/job-index-failure-count", std::to_string(failures_before)}}}}},
          {"spec", {{"containers", {{{"name", "main"}}}}}},
          {"status",
           {{"phase", "Running"},
            {"containerStatuses",
             {{{"name", "main"}, {"restartCount", 0}, {"state", {{"running", json::object()}}}}}}}}};
}

std::string log_of(int rank) {
  return std::string(in_lab) + "pods/r-worker-" + std::to_string(rank) + "/log";
}

TEST_CASE("a line of a log has its role, its rank and the number of its try") {
  Cluster cluster;
  cluster.answers[log_of(1)] = {200, "2026-11-21T07:40:25Z hello\n"};
  kube::Client client(cluster.server.start());
  const auto lines = read_run_logs(client, "lab", {pod(1, 2)}, {});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].role == "worker");
  CHECK(lines[0].rank == 1);
  CHECK(lines[0].attempt == 3);
  CHECK(lines[0].pod == "r-worker-1");
  CHECK(lines[0].text == "hello");
  CHECK(cluster.asked(log_of(1), "container=main"));
}

TEST_CASE("the logs of other ranks are read if one rank has no log, but not if a log is refused") {
  for (const int status : {400, 404, 500, 503}) {
    CAPTURE(status);
    Cluster cluster;
    cluster.answers[log_of(0)] = {status, status_body(status, "Whatever", "no log")};
    cluster.answers[log_of(1)] = {200, "2026-11-21T07:40:25Z hello\n"};
    kube::Client client(cluster.server.start());
    std::vector<std::string> problems;
    CHECK(read_run_logs(client, "lab", {pod(0), pod(1)}, {}, &problems).size() == 1);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].starts_with("no logs of r-worker-0"));
  }
  Cluster cluster;
  cluster.answers[log_of(0)] = {403, status_body(403, "Forbidden", "not yours")};
  kube::Client client(cluster.server.start());
  CHECK_THROWS_AS(read_run_logs(client, "lab", {pod(0), pod(1)}, {}), kube::ApiError);
}

TEST_CASE("only the logs of the requested ranks are read") {
  Cluster cluster;
  for (const int rank : {0, 1}) cluster.answers[log_of(rank)] = {200, "2026-11-21T07:40:25Z hello\n"};
  kube::Client client(cluster.server.start());
  LogFilter filter;
  filter.rank = 1;
  CHECK(read_run_logs(client, "lab", {pod(0), pod(1)}, filter).size() == 1);
  CHECK_FALSE(cluster.asked(log_of(0)));
  filter.role = "server";
  CHECK(read_run_logs(client, "lab", {pod(0), pod(1)}, filter).empty());
}

TEST_CASE("--since and --tail apply to the present pods, but not to pods that start later") {
  Cluster cluster;
  for (const int rank : {0, 1}) cluster.answers[log_of(rank)] = {200, "2026-11-21T07:40:25Z hello\n"};
  kube::Client client(cluster.server.start());
  LogFilter filter;
  filter.tail = 7;
  RunLogFollower first(client, "lab", filter);
  filter.tail.reset();
  filter.since = std::chrono::seconds(90);
  RunLogFollower second(client, "lab", filter);
  first.update({pod(0)});
  second.update({pod(0)});
  CHECK(eventually([&] { return cluster.asked(log_of(0), "tailLines=7"); }));
  CHECK(eventually([&] { return cluster.asked(log_of(0), "sinceSeconds=90"); }));
  first.update({pod(0), pod(1)});
  second.update({pod(0), pod(1)});
  CHECK(eventually([&] { return cluster.asked(log_of(1)); }));
  CHECK_FALSE(cluster.asked(log_of(1), "tailLines"));
  CHECK_FALSE(cluster.asked(log_of(1), "sinceSeconds"));
}

TEST_CASE("a run is read without events if the user may not read events") {
  Cluster cluster;
  cluster.answers[std::string(in_lab) + "configmaps/r"] = {
      200, R"({"metadata":{"name":"r","labels":{"mlk.dev/run":"r"}}})"};
  cluster.answers[std::string(in_lab) + "events"] = {403, status_body(403, "Forbidden", "no")};
  kube::Client client(cluster.server.start());
  CHECK(fetch_run(client, "lab", "r").owner["metadata"]["name"] == "r");
  for (const int status : {401, 404, 500}) {
    {
      const std::lock_guard lock(cluster.mutex);
      cluster.answers[std::string(in_lab) + "events"] = {status, status_body(status, "Whatever", "no")};
    }
    CHECK_THROWS_AS(fetch_run(client, "lab", "r"), kube::ApiError);
  }
}

TEST_CASE("write_record() does not write into the owner of a later run with the same name") {
  Cluster cluster;
  const std::string owner_path = std::string(in_lab) + "configmaps/r";
  cluster.answers[owner_path] = {200, "{}"};
  kube::Client client(cluster.server.start());
  RunStatus status;
  status.run = "r";
  const json owner = {{"metadata", {{"name", "r"}, {"uid", "u1"}}}};
  CHECK_FALSE(write_record(client, "lab", owner, status));
  CHECK(cluster.seen().empty());  // the run has not ended
  status.phase = Phase::succeeded;
  CHECK_FALSE(write_record(client, "lab", owner, status));
  REQUIRE(cluster.asked(owner_path));
  CHECK(json::parse(cluster.bodies.back())["metadata"]["uid"] == "u1");
  {
    const std::lock_guard lock(cluster.mutex);
    cluster.answers[owner_path] = {409, status_body(409, "Conflict", "another uid")};
  }
  const std::optional<std::string> problem = write_record(client, "lab", owner, status);
  REQUIRE(problem);
  CHECK(problem->find("another uid") != std::string::npos);
}

TEST_CASE("write_record() writes a new record of an ended or stopped run") {
  Cluster cluster;
  const std::string owner_path = std::string(in_lab) + "configmaps/r";
  cluster.answers[owner_path] = {200, "{}"};
  kube::Client client(cluster.server.start());
  RunStatus status;
  status.run = "r";
  json owner = {{"metadata", {{"name", "r"}, {"uid", "u1"}}}};
  for (const Phase phase : {Phase::incomplete, Phase::queued, Phase::scheduling, Phase::starting,
                            Phase::running, Phase::restarting}) {
    status.phase = phase;
    CHECK_FALSE(write_record(client, "lab", owner, status));
  }
  CHECK(cluster.seen().empty());
  for (const Phase phase : {Phase::stopped, Phase::succeeded, Phase::failed}) {
    status.phase = phase;
    const std::size_t before = cluster.seen().size();
    CHECK_FALSE(write_record(client, "lab", owner, status));
    CHECK(cluster.seen().size() == before + 1);
    owner["data"]["record"] = record_patch(status)["data"]["record"];
    CHECK_FALSE(write_record(client, "lab", owner, status));
    CHECK(cluster.seen().size() == before + 1);
  }
}

TEST_CASE("fetch_run() returns the events about objects whose names begin with the run's name") {
  Cluster cluster;
  cluster.answers[std::string(in_lab) + "configmaps/r"] = {
      200, R"({"metadata":{"name":"r","labels":{"mlk.dev/run":"r"}}})"};
  cluster.answers[std::string(in_lab) + "events"] = {
      200, R"({"items":[{"involvedObject":{"name":"r-worker-0"}},{"involvedObject":{"name":"s-worker-0"}},
                        {"involvedObject":{"name":"r"}},{"involvedObject":{}}]})"};
  kube::Client client(cluster.server.start());
  const RunObjects objects = fetch_run(client, "lab", "r");
  REQUIRE(objects.events.size() == 2);
  CHECK(objects.events[0]["involvedObject"]["name"] == "r-worker-0");
  CHECK(objects.events[1]["involvedObject"]["name"] == "r");
  CHECK(cluster.asked(std::string(in_lab) + "pods", "mlk.dev%2Frun%3Dr"));
  CHECK(cluster.asked(std::string(in_lab) + "events", "type%21%3DNormal"));
}

// A run of one worker whose node may be silent.
struct DoubtfulRun : Cluster {
  json worker = pod(0);

  DoubtfulRun() {
    worker["metadata"]["labels"]["mlk.dev/run"] = "r";
    worker["metadata"]["labels"]["batch.kubernetes.io/job-name"] = "r-worker";
    worker["spec"]["nodeName"] = "n1";
    conditions("False", "True");
    const json owner = {
        {"metadata",
         {{"name", "r"}, {"uid", "u"}, {"labels", {{"mlk.dev/run", "r"}, {"mlk.dev/name", "x"}}}}}};
    answers[std::string(in_lab) + "configmaps"] = {200, json{{"items", {owner}}}.dump()};
    const json job = {
        {"metadata", {{"name", "r-worker"}, {"labels", {{"mlk.dev/run", "r"}, {"mlk.dev/role", "worker"}}}}},
        {"spec", {{"completions", 1}}}};
    answers["/apis/batch/v1/namespaces/lab/jobs"] = {200, json{{"items", {job}}}.dump()};
    answers["/api/v1/nodes/n1"] = {403, status_body(403, "Forbidden", "no")};
    answers[std::string(in_lab) + "events"] = {
        200,
        R"({"items":[{"type":"Warning","reason":"NodeNotReady","involvedObject":{"uid":"u-r-worker-0"}}]})"};
  }
  void conditions(const char* ready, const char* containers_ready, const char* reason = "") {
    worker["status"]["conditions"] = {{{"type", "Ready"}, {"status", ready}, {"reason", reason}},
                                      {{"type", "ContainersReady"}, {"status", containers_ready}}};
  }
  std::string state() {
    answers[std::string(in_lab) + "pods"] = {200, json{{"items", {worker}}}.dump()};
    kube::Client client(server.start());
    const std::vector<RunStatus> runs = list_runs(client, "lab", std::chrono::system_clock::now());
    return runs.size() == 1 && runs[0].ranks.size() == 1 ? runs[0].ranks[0].state : "none";
  }
  bool asked_events() { return asked(std::string(in_lab) + "events"); }
};

TEST_CASE("to list runs, mlk reads events about nodes if the state of a doubtful node is unknown") {
  DoubtfulRun silent;
  CHECK(silent.state() == "Missing");
  CHECK(silent.asked(std::string(in_lab) + "events", "reason%3DNodeNotReady"));
  const auto asks = [](const std::function<void(DoubtfulRun&)>& change) {
    DoubtfulRun run;
    change(run);
    CHECK(run.state() == "Running");
    return run.asked_events();
  };
  CHECK_FALSE(asks([](DoubtfulRun& run) { run.conditions("True", "True"); }));
  CHECK_FALSE(asks([](DoubtfulRun& run) { run.conditions("False", "False"); }));
  CHECK_FALSE(asks([](DoubtfulRun& run) { run.conditions("False", "True", "ReadinessGatesNotReady"); }));
  CHECK_FALSE(asks([](DoubtfulRun& run) {
    run.answers["/api/v1/nodes/n1"] = {
        200, R"({"metadata":{"name":"n1"},"status":{"conditions":[{"type":"Ready","status":"True"}]}})"};
  }));
  CHECK(asks([](DoubtfulRun& run) {
    run.answers[std::string(in_lab) + "events"] = {403, status_body(403, "Forbidden", "no")};
  }));
  DoubtfulRun broken;
  broken.answers[std::string(in_lab) + "events"] = {404, status_body(404, "NotFound", "no")};
  CHECK_THROWS_AS(broken.state(), kube::ApiError);
}

TEST_CASE("to list runs, mlk asks for the pods of trials only if the filter names a sweep") {
  Cluster cluster;
  kube::Client client(cluster.server.start());
  const std::string path = std::string(in_lab) + "pods";
  CHECK(list_runs(client, "lab", Time{}).empty());
  CHECK(cluster.asked(path, "%21mlk.dev%2Fsweep"));
  CHECK(list_runs(client, "lab", Time{}, {.sweep = "s"}).empty());
  CHECK(cluster.asked(path, "mlk.dev%2Fsweep%3Ds"));
}

}  // namespace
}  // namespace mlk
