// Tests how the logs of many pods are read.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/run/read/run_logs.h"
#include "tests/unit/kube/fake_server.h"
#include "tests/unit/run/read/whole_logs.h"

TEST_SUITE_BEGIN("run/read/many_logs");

namespace mlk {
namespace {

using json = nlohmann::json;

constexpr int pods_with_logs = 35;

struct ManyLogs {
  std::vector<json> pods;
  FakeServer server;

  ManyLogs() {
    for (int rank = 0; rank < pods_with_logs; ++rank) {
      const std::string name = "p" + std::to_string(rank);
      pods.push_back({{"metadata",
                       {{"name", name},
                        {"uid", "uid-" + name},
                        {"labels", {{"mlk.dev/role", rank % 2 == 0 ? "worker" : "server"}}},
                        {"annotations",
                         {{"batch.kubernetes.io/job-completion-index", std::to_string(rank)},
                          {"batch.kubernetes.io/job-index-failure-count", "1"},
                          {"batch.kubernetes.io/job-index-ignored-failure-count", "2"}}}}},
                      {"spec", {{"containers", {{{"name", "x"}}, {{"name", "main"}}}}}},
                      {"status", {{"phase", "Running"}}}});
    }
    // The log of a higher rank has an earlier line. Every tenth rank has no log.
    server.http->Get(R"(/api/v1/namespaces/lab/pods/p(\d+)/log)", [](const httplib::Request& request,
                                                                     httplib::Response& response) {
      const int rank = std::stoi(request.matches[1]);
      if (rank % 10 == 9) return answer(response, 404, status_body(404, "NotFound", "no log"));
      CHECK(request.get_param_value("container") == "main");
      const std::string second = std::to_string(99 - rank);  // two digits each
      response.set_content("2026-01-03T00:00:00.0" + second + "Z said by " + std::to_string(rank) + "\n",
                           "text/plain");
    });
  }
};

TEST_CASE("the lines of many logs are sorted by time, and each line names its own pod") {
  ManyLogs logs;
  kube::Client client(logs.server.start());
  std::vector<std::string> problems;
  const std::vector<RunLogLine> lines = read_run_logs(client, "lab", logs.pods, {}, &problems);
  std::size_t next = 0;
  for (int rank = pods_with_logs - 1; rank >= 0; --rank) {
    if (rank % 10 == 9) continue;
    REQUIRE(next < lines.size());
    const RunLogLine& line = lines[next++];
    CHECK(line.text == "said by " + std::to_string(rank));
    CHECK(line.rank == rank);
    CHECK(line.role == (rank % 2 == 0 ? "worker" : "server"));
    CHECK(line.attempt == 4);
    CHECK(line.pod == "p" + std::to_string(rank));
    CHECK(line.uid == "uid-p" + std::to_string(rank));
    CHECK(line.time == parse_time("2026-01-03T00:00:00.0" + std::to_string(99 - rank) + "Z"));
  }
  CHECK(next == lines.size());
  CHECK(problems == std::vector<std::string>{"no logs of 3 pods, such as p9: no log"});
  CHECK(read_run_logs(client, "lab", logs.pods, {}).size() == lines.size());  // without the problems
}

TEST_CASE("read_run_logs() returns no lines and no error if there are no pods") {
  ManyLogs logs;
  kube::Client client(logs.server.start());
  CHECK(read_run_logs(client, "lab", {}, {}).empty());
  CHECK(read_run_logs(client, "lab", logs.pods, {.role = "chief"}).empty());
}

TEST_CASE("read_run_logs() fails if the server answers no request") {
  ManyLogs logs;
  kube::Config config;
  {
    FakeServer gone;
    config = gone.start();
  }
  config.longest_trying = std::chrono::milliseconds(0);
  kube::Client silent(config);
  std::vector<std::string> problems;
  CHECK_THROWS_AS(read_run_logs(silent, "lab", {logs.pods[0], logs.pods[1]}, {}, &problems), kube::ApiError);
  kube::Client client(logs.server.start());
  problems.clear();
  CHECK(read_run_logs(client, "lab", {logs.pods[9]}, {}, &problems).empty());  // 404 counts as an answer
  CHECK(problems.size() == 1);
}

}  // namespace
}  // namespace mlk
