// Tests which logs are read to find the newest metrics lines of runs, and how much of each log.
#include "cli/run/read/tails.h"

#include <algorithm>
#include <map>
#include <mutex>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/run/state/report.h"
#include "cli/run/state/status.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("run/read/tails");

namespace mlk {
namespace {

using json = nlohmann::json;
using namespace std::chrono_literals;

constexpr auto long_enough = 20s;  // no test waits so long

// A run of workers with logs that the test writes.
struct Logs {
  struct Log {
    int status = 200;
    std::string text;
    bool hangs = false;
  };
  std::map<std::string, Log> logs;  // by pod
  RunObjects objects;
  std::mutex mutex;
  std::vector<std::string> asked;  // "pod lines bytes"
  FakeServer server;

  Logs() {
    objects.owner = {{"metadata", {{"name", "r"}, {"labels", {{"mlk.dev/run", "r"}}}}}};
    objects.jobs = {{{"metadata", {{"name", "r-worker"}, {"labels", {{"mlk.dev/role", "worker"}}}}},
                     {"spec", {{"completions", 8}, {"parallelism", 8}}}}};
    server.http->Get(R"(/api/v1/namespaces/lab/pods/(.+)/log)",
                     [this](const httplib::Request& request, httplib::Response& response) {
                       const std::string pod = request.matches[1];
                       {
                         const std::lock_guard lock(mutex);
                         asked.push_back(pod + " " + request.get_param_value("tailLines") + " " +
                                         request.get_param_value("limitBytes"));
                       }
                       CHECK(request.get_param_value("container") == "main");
                       const Log log = logs[pod];
                       if (log.hangs) server.hang();
                       response.status = log.status;
                       response.set_content(log.text, "text/plain");
                     });
  }
  // A live worker with this log.
  void worker(int rank, const std::string& text, int status = 200) {
    const std::string name = "w" + std::to_string(rank);
    objects.pods.push_back(
        {{"metadata",
          {{"name", name},
           {"uid", "uid-" + name},
           {"creationTimestamp", "2026-01-03T00:00:00Z"},
           {"labels", {{"batch.kubernetes.io/job-name", "r-worker"}, {"mlk.dev/role", "worker"}}},
           {"annotations", {{"batch.kubernetes.io/job-completion-index", std::to_string(rank)}}}}},
         {"spec", {{"nodeName", "n"}, {"containers", {{{"name", "main"}}}}}},
         {"status",
          {{"phase", "Running"},
           {"containerStatuses",
            {{{"name", "main"}, {"state", {{"running", {{"startedAt", "2026-01-03T00:00:00Z"}}}}}}}}}}});
    logs[name] = {status, text};
  }
  static std::string said(const std::string& text, std::chrono::seconds ago = 0s) {
    return format_time(std::chrono::system_clock::now() - ago) + " " + text + "\n";
  }
  std::vector<std::string> read(std::chrono::milliseconds budget = long_enough) {
    kube::Client client(server.start());
    read_tails(client, "lab", {&objects}, budget);
    const std::lock_guard lock(mutex);
    return asked;
  }
  long step(int rank) const {
    const auto line = objects.lines.find("uid-w" + std::to_string(rank));
    return line == objects.lines.end() ? -1 : line->second.metrics.step;
  }
};

using AskedLogs = std::vector<std::string>;

constexpr char launcher_alone[] = "mlk: rank 3 of MPI ended with exit code 1";

// Adds a failed worker. `message`: the termination message in the status of its pod.
void fail_worker(Logs& run, int rank, const std::string& message, const std::string& log,
                 const std::string& at = "2026-01-03T00:00:09Z") {
  run.worker(rank, log);
  run.objects.pods.back()["status"] = {
      {"phase", "Failed"},
      {"containerStatuses",
       {{{"name", "main"},
         {"state",
          {{"terminated",
            {{"exitCode", 1}, {"reason", "Error"}, {"message", message}, {"finishedAt", at}}}}}}}}};
}

TEST_CASE("more of a failed pod's log is read if the pod's status lacks the error") {
  Logs run;
  fail_worker(run, 0, "ValueError: said", "");
  fail_worker(run, 1, launcher_alone,
              Logs::said("\x1b[31mValueError: bad lr") + Logs::said("line 2") + Logs::said(launcher_alone));
  fail_worker(run, 2, R"({"schema":1,"message":"mlk: rank 1 of MPI ended with exit code 1"})", "");
  run.read();
  REQUIRE(run.objects.endings.size() == 1);
  CHECK(run.objects.endings.count("uid-w1") == 1);
  const RunStatus status = observe(run.objects, std::chrono::system_clock::now());
  CHECK(status.ranks.at(1).reason.starts_with("exit code 1: rank 3 of MPI: ValueError: bad lr"));
  CHECK(status.ranks.at(0).reason.starts_with("exit code 1: ValueError: said"));
}

TEST_CASE("the last words of a program come from its log if the kubelet has read the log too early") {
  Logs run;
  fail_worker(run, 0, "epoch 1\n", Logs::said("epoch 1") + Logs::said("fatal: the disk is full"));
  fail_worker(run, 1, "gave up", Logs::said("epoch 1") + Logs::said("bye"));
  run.read();
  const RunStatus status = observe(run.objects, std::chrono::system_clock::now());
  CHECK(status.ranks.at(0).reason.starts_with("exit code 1: fatal: the disk is full"));
  CHECK(status.ranks.at(1).reason.starts_with("exit code 1: gave up"));
}

TEST_CASE("the end of a log is ignored if it is as long as the request allows") {
  constexpr std::size_t asked_for = 256 * 1024;
  for (const std::size_t size : {asked_for - 1, asked_for}) {
    Logs run;
    const std::string rest = Logs::said("ValueError: bad lr") + Logs::said(launcher_alone);
    const std::string long_line = Logs::said("");
    fail_worker(run, 1, launcher_alone,
                Logs::said(std::string(size - rest.size() - long_line.size(), 'x')) + rest);
    REQUIRE(run.logs["w1"].text.size() == size);
    run.read();
    CHECK(run.objects.endings.empty() == (size == asked_for));
  }
}

TEST_CASE("only the logs of the three pods that failed first are read for their errors") {
  Logs run;
  for (int rank = 0; rank < 5; ++rank)
    fail_worker(run, rank, launcher_alone, "", "2026-01-03T00:00:0" + std::to_string(9 - rank) + "Z");
  std::vector<std::string> pods;
  for (const LogToRead& log : endings_to_read(run.objects)) pods.push_back(log.pod);
  CHECK(pods == std::vector<std::string>{"w4", "w3", "w2"});
  run.logs["w4"].status = 404;
  run.logs["w3"].text = Logs::said(std::string(256 * 1024, 'x'));  // the server cuts off its end
  run.read();
  CHECK(run.objects.endings.empty());
  CHECK(observe(run.objects, std::chrono::system_clock::now())
            .ranks.at(4)
            .reason.starts_with("exit code 1: rank 3 of MPI ended with exit code 1"));
  run.objects.owner["data"]["record"] = R"({"schema":1,"phase":"Failed","result":null})";
  CHECK(endings_to_read(run.objects).empty());
}

TEST_CASE("only the lowest rank's log is read if it has recent lines") {
  Logs run;
  run.worker(0, Logs::said("mlk step=3 loss=1") + Logs::said("hello") + Logs::said("mlk step=4 loss=1"));
  run.worker(1, Logs::said("mlk step=9"));
  CHECK(run.read() == AskedLogs{"w0 40 32768"});
  CHECK(run.step(0) == 4);
  CHECK(run.step(1) == -1);
}

TEST_CASE("the logs of the other ranks are read if the lowest rank's line is old") {
  Logs run;
  run.worker(0, Logs::said("mlk step=3", 60s));
  run.worker(1, Logs::said("mlk step=9"));
  run.worker(2, "");
  AskedLogs asked = run.read();
  std::ranges::sort(asked);  // the last two requests are sent at the same time
  CHECK(asked == AskedLogs{"w0 40 32768", "w1 40 32768", "w2 40 32768"});
  CHECK(run.step(0) == 3);
  CHECK(run.step(1) == 9);
}

TEST_CASE("the logs of the other ranks are read if the lowest rank has no metrics line") {
  Logs run;
  run.worker(0, Logs::said("hello"));
  run.worker(1, "");
  CHECK(run.read() == AskedLogs{"w0 40 32768", "w1 40 32768"});
  CHECK(run.objects.lines.empty());
}

TEST_CASE("more lines of a log are read if its last 40 lines have no metrics line") {
  Logs run;
  std::string text;
  for (int i = 0; i < 40; ++i) text += Logs::said("hello");
  run.worker(0, text);
  CHECK(run.read() == AskedLogs{"w0 40 32768", "w0 1000 262144"});
}

TEST_CASE("the end of a log is requested again if long lines fill the answer") {
  Logs run;
  run.worker(0, Logs::said(std::string(40'000, 'x')));
  CHECK(run.read() == AskedLogs{"w0 40 32768", "w0 3 262144"});
}

TEST_CASE("the logs of the other ranks are read even if one log is refused") {
  for (const int status : {404, 500}) {
    Logs run;
    run.worker(0, status_body(status, "Whatever", "mlk step=3"), status);
    run.worker(1, Logs::said("mlk step=9"));
    CHECK(run.read() == AskedLogs{"w0 40 32768", "w1 40 32768"});
    CHECK(run.step(0) == -1);
    CHECK(run.step(1) == 9);
  }
}

TEST_CASE("no further log is requested if a log does not answer in time") {
  Logs run;
  run.worker(0, "");
  run.worker(1, Logs::said("mlk step=9"));
  run.logs["w0"].hangs = true;
  for (const std::string& asked : run.read(500ms)) CHECK(asked == "w0 40 32768");
  CHECK(run.objects.lines.empty());
}

TEST_CASE("logs of several runs are read in parallel") {
  Logs run;
  RunObjects other = run.objects;
  run.worker(0, "");
  run.logs["w0"].hangs = true;
  std::swap(run.objects, other);
  run.worker(1, Logs::said("mlk step=9"));
  kube::Client client(run.server.start());
  read_tails(client, "lab", {&other, &run.objects}, 3s);
  CHECK(run.step(1) == 9);
  CHECK(other.lines.empty());
}

TEST_CASE("no request is sent if there is no log to read") {
  Logs run;
  CHECK(run.read().empty());
}

TEST_CASE("a log is read again if it exactly fills the bytes of one read") {
  Logs run;
  const std::string line = "2026-01-03T00:00:05Z mlk step=3 loss=1\n";
  run.worker(0, "2026-01-03T00:00:04Z " + std::string(32 * 1024 - line.size() - 22, 'x') + "\n" + line);
  REQUIRE(run.logs["w0"].text.size() == 32 * 1024);
  CHECK(run.read() == AskedLogs{"w0 40 32768", "w0 3 262144"});
  CHECK(run.step(0) == 3);
  CHECK(run.objects.lines.at("uid-w0").time == parse_time("2026-01-03T00:00:05Z"));
  CHECK(run.objects.lines.at("uid-w0").metrics.values == std::map<std::string, double>{{"loss", 1}});
  Logs shorter;
  shorter.worker(0, run.logs["w0"].text.substr(0, 20) + run.logs["w0"].text.substr(21));
  REQUIRE(shorter.logs["w0"].text.size() == 32 * 1024 - 1);
  CHECK(shorter.read() == AskedLogs{"w0 40 32768"});
}

TEST_CASE("a log with fewer lines than requested counts as complete and is not read again") {
  Logs run;
  std::string text;
  for (int i = 0; i < 39; ++i) text += Logs::said("hello");
  run.worker(0, text);
  run.worker(1, text + Logs::said("hello"));
  CHECK(run.read() == AskedLogs{"w0 40 32768", "w1 40 32768", "w1 1000 262144"});
}

TEST_CASE("a metrics line of the lowest rank counts as old after half a minute") {
  for (const auto& [ago, asked] :
       {std::pair{15s, AskedLogs{"w0 40 32768"}}, {31s, {"w0 40 32768", "w1 40 32768"}}}) {
    Logs run;
    run.worker(0, Logs::said("mlk step=3", ago));
    run.worker(1, "");
    CHECK(run.read() == asked);
  }
}

TEST_CASE("a log is used only if its answer has status 200") {
  for (const int status : {203, 404, 500}) {
    Logs run;
    run.worker(0, Logs::said("mlk step=3"), status);
    CHECK(run.read() == AskedLogs{"w0 40 32768"});
    CHECK(run.objects.lines.empty());
  }
}

}  // namespace
}  // namespace mlk
