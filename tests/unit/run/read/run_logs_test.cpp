// Tests the warnings about logs of a run that do not arrive, and the number of requested lines.
#include "cli/run/read/run_logs.h"

#include <algorithm>
#include <map>
#include <mutex>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "tests/unit/kube/fake_server.h"
#include "tests/unit/run/read/whole_logs.h"

TEST_SUITE_BEGIN("run/read/run_logs");

namespace mlk {
namespace {

using json = nlohmann::json;
using Texts = std::vector<std::string>;

json pod_in_phase(int rank, const std::string& phase = "Running", const std::string& role = "worker") {
  const std::string name = role + std::to_string(rank);
  return {{"metadata",
           {{"name", name},
            {"uid", "uid-" + name},
            {"labels", {{"mlk.dev/role", role}}},
            {"annotations", {{"batch.kubernetes.io/job-completion-index", std::to_string(rank)}}}}},
          {"spec", {{"nodeName", "n1"}, {"containers", {{{"name", "main"}}}}}},
          {"status", {{"phase", phase}}}};
}

// The log of each pod has one line. For some pods the test sets another status.
struct LogAnswers {
  std::map<std::string, int> statuses;  // by pod
  std::mutex mutex;
  Texts asked;  // "pod tailLines sinceSeconds"
  FakeServer server;

  LogAnswers() {
    server.http->Get(R"(/api/v1/namespaces/lab/pods/(.+)/log)", [this](const httplib::Request& request,
                                                                       httplib::Response& response) {
      const std::string pod = request.matches[1];
      const std::lock_guard lock(mutex);
      asked.push_back(pod + " " + request.get_param_value("tailLines") + " " +
                      request.get_param_value("sinceSeconds"));
      const auto found = statuses.find(pod);
      if (found != statuses.end())
        return answer(response, found->second, status_body(found->second, "Whatever", "no log"));
      response.set_content("2026-01-03T00:00:00Z said by " + pod + "\n", "text/plain");
    });
  }
};

struct ReadAndTold {
  std::size_t lines = 0;
  Texts problems;
};

ReadAndTold read_with(const std::map<std::string, int>& statuses, const std::vector<json>& pods) {
  LogAnswers cluster;
  cluster.statuses = statuses;
  kube::Client client(cluster.server.start());
  ReadAndTold out;
  out.lines = read_run_logs(client, "lab", pods, {}, &out.problems).size();
  return out;
}

TEST_CASE("ranks whose containers have not started are reported together") {
  CHECK(read_with({{"worker0", 400}}, {pod_in_phase(0, "Pending")}).problems ==
        Texts{"worker/0 has no log yet: its container has not started"});
  const ReadAndTold two =
      read_with({{"worker0", 400}, {"worker2", 400}},
                {pod_in_phase(0, "Pending"), pod_in_phase(1), pod_in_phase(2, "Pending")});
  CHECK(two.lines == 1);
  CHECK(two.problems ==
        Texts{"2 ranks have no log yet, such as worker/0: their containers have not started"});
  // In these cases the log is missing for another reason.
  CHECK(read_with({{"worker0", 400}}, {pod_in_phase(0)}).problems ==
        Texts{"no logs of worker0 on node n1: no log"});
  CHECK(read_with({{"worker0", 404}}, {pod_in_phase(0, "Pending")}).problems ==
        Texts{"no logs of worker0 on node n1: no log"});
  CHECK(read_with({{"worker0", 500}}, {pod_in_phase(0, "Pending")}).problems.size() == 1);
  CHECK(read_with({}, {pod_in_phase(0)}).problems.empty());
}

TEST_CASE("logs that cannot be read are reported before ranks that have not started") {
  CHECK(read_with({{"worker0", 400}, {"worker1", 404}}, {pod_in_phase(0, "Pending"), pod_in_phase(1)})
            .problems == Texts{"no logs of worker1 on node n1: no log",
                               "worker/0 has no log yet: its container has not started"});
}

TEST_CASE("the error for a refused log says which log it is, and has the status of the refusal") {
  for (const int status : {403, 410, 422}) {
    CAPTURE(status);
    LogAnswers cluster;
    cluster.statuses["worker1"] = status;
    kube::Client client(cluster.server.start());
    try {
      (void)read_run_logs(client, "lab", {pod_in_phase(0), pod_in_phase(1)}, {});
      FAIL("was not refused");
    } catch (const kube::ApiError& error) {
      CHECK(error.status() == status);
      CHECK_MESSAGE(std::string(error.what()).starts_with("log of "), error.what());
      CHECK_MESSAGE(std::string(error.what()).find("worker1") != std::string::npos, error.what());
    }
  }
}

TEST_CASE("--tail needs only one request for each log if no rank has several logs") {
  LogAnswers cluster;
  kube::Client client(cluster.server.start());
  // A server with the same number is another rank.
  CHECK(read_run_logs(client, "lab", {pod_in_phase(0), pod_in_phase(0, "Running", "server")}, {.tail = 7})
            .size() == 2);
  std::sort(cluster.asked.begin(), cluster.asked.end());
  CHECK(cluster.asked == Texts{"server0 7 ", "worker0 7 "});
  cluster.asked.clear();
  CHECK(read_run_logs(client, "lab", {pod_in_phase(0)}, {.since = std::chrono::seconds(90)}).size() == 1);
  CHECK(cluster.asked == Texts{"worker0  90"});
  cluster.asked.clear();
  CHECK(read_run_logs(client, "lab", {pod_in_phase(0)}, {}).size() == 1);
  CHECK(cluster.asked == Texts{"worker0  "});
}

TEST_CASE("tail_lines() returns at most 1000000000") {
  CHECK(tail_lines(0) == 0);
  CHECK(tail_lines(999'999'999) == 999'999'999);
  CHECK(tail_lines(1'000'000'000) == 1'000'000'000);
  CHECK(tail_lines(1'000'000'001) == 1'000'000'000);
}

}  // namespace
}  // namespace mlk
