// Tests the order of lines, the amount of held data and the warnings while logs are read as they arrive.
#include "cli/run/read/log_reader.h"

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/run/read/run_logs.h"
#include "tests/unit/kube/fake_server.h"
#include "tests/unit/run/read/whole_logs.h"

TEST_SUITE_BEGIN("run/read/log_reader");

namespace mlk {
namespace {

using json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Texts = std::vector<std::string>;

json pod_of_rank(const std::string& name, int rank, int failures_before = 0) {
  return {{"metadata",
           {{"name", name},
            {"uid", "u-" + name},
            {"labels", {{"mlk.dev/role", "worker"}}},
            {"annotations",
             {{"batch.kubernetes.io/job-completion-index", std::to_string(rank)},
              {"batch.kubernetes.io/job-index-failure-count", std::to_string(failures_before)}}}}},
          {"spec", {{"nodeName", "n1"}, {"containers", {{{"name", "main"}}}}}},
          {"status", {{"phase", "Running"}}}};
}

std::string stamped(int millisecond, const std::string& text) {
  return format_time_micro(parse_time("2026-11-21T07:40:00Z").value() + milliseconds(millisecond)) + " " +
         text + "\n";
}

// A server with the logs of pods, by name. It honours tailLines.
struct LogsOfPods {
  std::map<std::string, Texts> logs;
  FakeServer server;

  LogsOfPods() {
    server.http->Get(R"(/api/v1/namespaces/lab/pods/([^/]+)/log)",
                     [this](const httplib::Request& request, httplib::Response& response) {
                       Texts lines = logs[request.matches[1]];
                       if (request.has_param("tailLines")) {
                         const std::size_t tail = std::stoul(request.get_param_value("tailLines"));
                         if (lines.size() > tail)
                           lines.erase(lines.begin(), lines.end() - static_cast<long>(tail));
                       }
                       std::string body;
                       for (const std::string& line : lines) body += line;
                       response.set_content(body, "text/plain");
                     });
  }
};

// A log that begins 45 s after 07:40:00. At the rate of this log, the earlier lines would fill more than a
// node's file.
Texts cut_log() {
  Texts lines;
  for (int i = 0; i < 1100; ++i) lines.push_back(stamped(45'000 + i, std::string(1000, 'x')));
  return lines;
}

json started_at(const std::string& time, const std::string& state = "running") {
  json pod = pod_of_rank("a", 2);
  pod["status"]["containerStatuses"] = {
      {{"name", "proxy"}, {"state", {{"running", {{"startedAt", "2026-11-21T07:00:00Z"}}}}}},
      {{"name", "main"}, {"state", {{state, {{"startedAt", time}}}}}}};
  return pod;
}

Texts texts_of(const std::vector<RunLogLine>& lines) {
  Texts texts;
  for (const RunLogLine& line : lines) texts.push_back(line.text);
  return texts;
}

TEST_CASE("read_run_logs() sorts the lines of all ranks by time") {
  LogsOfPods pods;
  pods.logs["a"] = {stamped(1, "a1"), stamped(4, "a2"), stamped(3, "a3")};
  pods.logs["b"] = {stamped(2, "b1"), stamped(4, "b2"), stamped(9, "b3")};
  kube::Client client(pods.server.start());
  CHECK(texts_of(read_run_logs(client, "lab", {pod_of_rank("a", 0), pod_of_rank("b", 1)}, {})) ==
        Texts{"a1", "b1", "a2", "a3", "b2", "b3"});
}

// Returns logs as a node does: from the requested second on, and cut at the limit, even within a line.
struct LimitedLogs {
  std::map<std::string, std::string> logs;
  std::mutex mutex;
  std::map<std::string, Texts> limits;  // of the requests; "": no limit
  FakeServer server;

  LimitedLogs() {
    server.http->Get(R"(/api/v1/namespaces/lab/pods/([^/]+)/log)",
                     [this](const httplib::Request& request, httplib::Response& response) {
                       const std::string since = request.get_param_value("sinceTime"),
                                         limit = request.get_param_value("limitBytes");
                       std::string body;
                       for (std::string_view rest = logs[request.matches[1]]; !rest.empty();) {
                         const std::string_view line = rest.substr(0, rest.find('\n') + 1);
                         rest.remove_prefix(line.size());
                         if (since.empty() || line.substr(0, 19) >= since.substr(0, 19)) body += line;
                       }
                       if (!limit.empty() && body.size() > std::stoul(limit)) body.resize(std::stoul(limit));
                       response.set_content(body, "text/plain");
                       const std::lock_guard lock(mutex);
                       limits[request.matches[1]].push_back(limit);
                     });
  }
};

TEST_CASE("a long log is read in two requests, and no line is lost") {
  constexpr std::size_t first_part = 32 << 10, ends = 40;
  LimitedLogs node;
  std::vector<json> pods;
  std::map<std::string, Texts> expected, taken;
  for (std::size_t rank = 0; rank < ends; ++rank) {
    const std::string pod = "p" + std::to_string(rank);
    pods.push_back(pod_of_rank(pod, static_cast<int>(rank)));
    std::string& log = node.logs[pod];
    const auto add = [&](std::size_t size) {
      const int number = static_cast<int>(expected[pod].size());
      expected[pod].push_back(std::to_string(number) + std::string(size, 'x'));
      log += stamped(number * 7, expected[pod].back());
    };
    while (log.size() < first_part - 500) add(70);
    // For rank 0 the first part ends exactly after this line. For rank N it ends N bytes into the next line.
    add(first_part - log.size() - stamped(0, "").size() - std::to_string(expected[pod].size()).size() - rank);
    while (log.size() < first_part + 20'000) add(200);
  }
  pods.push_back(pod_of_rank("short", 99));
  node.logs["short"] = stamped(1, "all of it");
  expected["short"] = {"all of it"};
  kube::Client client(node.server.start());
  Texts problems;
  read_run_logs(client, "lab", pods, {},
                {.line = [&](const RunLogLine& line) { return taken[line.pod].push_back(line.text), true; }},
                &problems);
  CHECK(problems.empty());
  for (const auto& [pod, texts] : expected) CHECK_MESSAGE(taken[pod] == texts, pod);
  CHECK(node.limits["p0"] == Texts{std::to_string(first_part), ""});
  CHECK(node.limits["short"] == Texts{std::to_string(first_part)});
  node.limits.clear();
  read_run_logs(client, "lab", {pods[0]}, {.since = seconds(9)});
  read_run_logs(client, "lab", {pods[1]}, {.tail = 2});
  CHECK(node.limits["p0"] == Texts{""});
  CHECK(std::set<std::string>(node.limits["p1"].begin(), node.limits["p1"].end()) ==
        std::set<std::string>{""});
}

TEST_CASE("read_run_logs() passes the first line on before it has read the whole log") {
  std::atomic<bool> is_passed_on = false;
  FakeServer server;
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response& response) {
    response.set_chunked_content_provider("text/plain", [&](std::size_t sent, httplib::DataSink& sink) {
      if (sent == 0) {
        const std::string begin = stamped(1, "first") + stamped(2, "second");
        return sink.write(begin.data(), begin.size());
      }
      const auto deadline = std::chrono::steady_clock::now() + seconds(20);
      while (!is_passed_on && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(milliseconds(1));
      const std::string end = stamped(3, is_passed_on ? "in time" : "too late");
      sink.write(end.data(), end.size());
      sink.done();
      return true;
    });
  });
  kube::Client client(server.start());
  Texts taken;
  read_run_logs(client, "lab", {pod_of_rank("a", 0), pod_of_rank("b", 1)}, {},
                {.line = [&](const RunLogLine& line) {
                  is_passed_on = true;
                  taken.push_back(line.text);
                  return true;
                }});
  CHECK(taken == Texts{"first", "first", "second", "second", "in time", "in time"});
}

TEST_CASE("a taker that asks to stop gets no more lines") {
  LogsOfPods pods;
  pods.logs["a"] = {stamped(1, "a1"), stamped(4, "a2")};
  kube::Client client(pods.server.start());
  int taken = 0;
  read_run_logs(client, "lab", {pod_of_rank("a", 0)}, {},
                {.line = [&](const RunLogLine&) { return ++taken < 1; }});
  CHECK(taken == 1);
}

// The n-th request for a log returns the n-th answer.
struct BreakingLog {
  struct Answer {
    std::string text;
    bool breaks;
  };
  std::vector<Answer> answers;
  std::mutex mutex;
  Texts targets;
  FakeServer server;  // declared last: its handler uses the members above

  explicit BreakingLog(std::vector<Answer> wanted) : answers(std::move(wanted)) {
    server.http->Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
      const std::lock_guard lock(mutex);
      const Answer now = answers.at(targets.size());
      targets.push_back(request.target);
      response.set_chunked_content_provider("text/plain", [now](std::size_t, httplib::DataSink& sink) {
        if (!now.text.empty()) sink.write(now.text.data(), now.text.size());
        if (!now.breaks) sink.done();
        return !now.breaks;
      });
    });
  }
};

TEST_CASE("if the connection of a log breaks, mlk reads on from the last position") {
  const std::string first = stamped(1, "a1") + stamped(2, "a2");
  BreakingLog log({{"", true}, {first + "2026-11-21T07:40:00.003", true}, {first + stamped(3, "a3"), false}});
  kube::Client client(log.server.start());
  Texts problems;
  const auto lines = read_run_logs(client, "lab", {pod_of_rank("a", 0)}, {.since = seconds(9)}, &problems);
  CHECK(texts_of(lines) == Texts{"a1", "a2", "a3"});
  CHECK(problems.empty());
  REQUIRE(log.targets.size() == 3);
  CHECK(log.targets[1].ends_with("sinceSeconds=9"));
  CHECK(log.targets[2].ends_with("container=main&sinceTime=2026-11-21T07%3A40%3A00Z"));
}

TEST_CASE("a log is read to its end if each request brings a new line, even if each connection breaks") {
  std::vector<BreakingLog::Answer> answers;
  std::string text;
  Texts expected;
  for (int i = 1; i <= 6; ++i) {
    expected.push_back("a" + std::to_string(i));
    text += stamped(i, expected.back());
    answers.push_back({text, i < 6});
  }
  BreakingLog log(answers);
  kube::Config config = log.server.start();
  config.longest_trying = milliseconds(600);  // shorter than the sum of all pauses before an opening
  kube::Client client(config);
  Texts problems;
  CHECK(texts_of(read_run_logs(client, "lab", {pod_of_rank("a", 0)}, {}, &problems)) == expected);
  CHECK(problems.empty());
}

// Reads the log of one pod. Returns its lines; `log` gets how the log ended.
Texts read_one(kube::Client& client, LogRead& log) {
  log.source = choose_sources({pod_of_rank("a", 0)}, {}).front().first;
  log.options.container = log.source.container;
  std::vector<LogRead> logs = {log};
  Texts lines;
  read_logs(client, "lab", logs, {.line = [&](const RunLogLine& line) {
              lines.push_back(line.text);
              return true;
            }});
  log = logs.front();
  return lines;
}

TEST_CASE("mlk gives up a log if its connection breaks at the same place each time") {
  std::vector<BreakingLog::Answer> answers(20, {stamped(1, "a1"), true});
  answers.push_back({stamped(1, "a1") + stamped(2, "a2"), false});
  BreakingLog server(answers);
  kube::Config config = server.server.start();
  config.longest_trying = milliseconds(600);
  kube::Client client(config);
  LogRead log;
  CHECK(read_one(client, log) == Texts{"a1"});
  CHECK(log.end.status == 0);
  CHECK_FALSE(log.end.error.empty());
  CHECK(server.targets.size() < answers.size());
}

TEST_CASE("mlk gives up a log if its connections always fall silent after the same line") {
  constexpr int enough = 20;
  std::atomic<int> asked = 0;
  FakeServer server;
  server.http->Get("/version", [](const auto&, auto& response) { response.set_content("{}", "text/plain"); });
  server.http->Get("/api/v1/namespaces/lab/pods/a/log", [&](const auto&, auto& response) {
    const bool whole = ++asked > enough;
    response.set_chunked_content_provider("text/plain", [&, whole](std::size_t, httplib::DataSink& sink) {
      const std::string text = stamped(1, "a1") + (whole ? stamped(2, "a2") : "");
      sink.write(text.data(), text.size());
      if (!whole) server.hang();
      sink.done();
      return true;
    });
  });
  kube::Config config = server.start();
  config.silence = {.suspect = milliseconds(100), .leave = milliseconds(150)};
  config.longest_trying = milliseconds(100);
  kube::Client client(config);
  LogRead log;
  CHECK(read_one(client, log) == Texts{"a1"});
  CHECK(log.end.status == 0);
  CHECK(asked >= 4);  // a new connection may work
  CHECK(asked <= enough);
}

TEST_CASE("a silent log is opened again even if other logs have lines") {
  std::atomic<int> asked = 0;
  FakeServer server;
  server.http->Get("/api/v1/namespaces/lab/pods/silent/log", [&](const auto&, auto& response) {
    if (++asked == 1) return server.hang();
    response.set_content(stamped(1, "at last"), "text/plain");
  });
  server.http->Get("/api/v1/namespaces/lab/pods/busy/log", [&](const auto&, auto& response) {
    response.set_chunked_content_provider("text/plain", [&](std::size_t, httplib::DataSink& sink) {
      const std::string line = stamped(2, "busy");
      sink.write(line.data(), line.size());
      std::this_thread::sleep_for(milliseconds(50));
      if (asked > 1) sink.done();
      return true;
    });
  });
  kube::Client client(server.start());
  std::vector<LogRead> logs;
  for (const auto& [source, pod] : choose_sources({pod_of_rank("silent", 0), pod_of_rank("busy", 1)}, {}))
    logs.push_back({source, {.container = source.container}});
  Texts silent;
  read_logs(client, "lab", logs,
            {.line =
                 [&](const RunLogLine& line) {
                   if (line.pod == "silent") silent.push_back(line.text);
                   return true;
                 }},
            milliseconds(1000));
  CHECK(silent == Texts{"at last"});
  CHECK(asked == 2);
}

TEST_CASE("a log is reported if the node has rotated it during the read") {
  BreakingLog log({{stamped(1, "a1") + stamped(2, "a2"), true}, {stamped(5000, "a9"), false}});
  kube::Client client(log.server.start());
  Texts problems;
  const auto lines = read_run_logs(client, "lab", {pod_of_rank("a", 0)}, {}, &problems);
  CHECK(texts_of(lines) == Texts{"a1", "a2", "a9"});
  CHECK(problems == Texts{"node n1: it has rotated the log of a: lines may be missing"});
}

TEST_CASE("a kubelet's message in a log is reported once for each node") {
  LogsOfPods pods;
  pods.logs["a"] = {stamped(1, "a1"), "failed to create fsnotify watcher: too many open files\n"};
  pods.logs["b"] = {stamped(2, "b1"), "failed to create fsnotify watcher: too many open files\n", "Gone.\n"};
  kube::Client client(pods.server.start());
  Texts problems;
  const auto lines = read_run_logs(client, "lab", {pod_of_rank("a", 0), pod_of_rank("b", 1)}, {}, &problems);
  CHECK(texts_of(lines) == Texts{"a1", "b1"});
  CHECK(problems ==
        Texts{"node n1: it is out of inotify instances, so its logs are asked for again and again",
              "node n1: it says of the log: Gone."});
}

TEST_CASE("--since keeps the rest of a line that began earlier") {
  const auto read = [](const std::vector<BreakingLog::Answer>& answers, Texts* problems) {
    BreakingLog log(answers);
    kube::Client client(log.server.start());
    return texts_of(read_run_logs(client, "lab", {pod_of_rank("a", 0)}, {.since = seconds(60)}, problems));
  };
  Texts problems;
  CHECK(read({{" 46%|##| loss=0.3", false}}, &problems) == Texts{" 46%|##| loss=0.3"});
  CHECK(problems.empty());
  CHECK(read({{"46%\n", true},
              {"47%\n" + stamped(1, "a1"), true},
              {"48%\n" + stamped(1, "a1") + stamped(2, "a2"), false}},
             &problems) == Texts{"46%", "a1", "a2"});
  CHECK(problems.empty());
  CHECK(read({{"failed to open log file\n", false}}, &problems).empty());
  CHECK(problems == Texts{"node n1: it says of the log: failed to open log file"});
}

TEST_CASE("--tail counts the lines of all pods of a rank together") {
  LogsOfPods pods;
  pods.logs["old"] = {stamped(1, "old1"), stamped(2, "old2"), stamped(3, "old3")};
  pods.logs["new"] = {stamped(5, "new1"), stamped(6, "new2")};
  pods.logs["other"] = {stamped(4, "other1"), stamped(7, "other2")};
  kube::Client client(pods.server.start());
  const std::vector<json> all = {pod_of_rank("old", 0), pod_of_rank("new", 0, 1), pod_of_rank("other", 1)};
  CHECK(texts_of(read_run_logs(client, "lab", all, {.tail = 1})) == Texts{"new2", "other2"});
  CHECK(texts_of(read_run_logs(client, "lab", all, {.tail = 3})) ==
        Texts{"old3", "other1", "new1", "new2", "other2"});
  CHECK(texts_of(read_run_logs(client, "lab", all, {.tail = 0})).empty());
}

TEST_CASE("--tail takes the last lines of a rank first from its newest pod, then from older pods") {
  const auto source = [](int rank, int attempt, const std::string& container) {
    LogSource one;
    one.who.role = "worker";
    one.who.rank = rank;
    one.who.attempt = attempt;
    one.container = container;
    return one;
  };
  const std::vector<LogSource> sources = {source(0, 1, "main"), source(0, 2, "fetch"), source(0, 2, "main"),
                                          source(1, 1, "main")};
  CHECK(shares_rank(sources) == std::vector<bool>{true, true, true, false});
  CHECK(tails_of(sources, {9, 2, 3, 0}, 3) == std::vector<long>{0, 0, 3, 3});
  CHECK(tails_of(sources, {9, 2, 3, 0}, 4) == std::vector<long>{0, 1, 4, 4});
  CHECK(tails_of(sources, {9, 2, 3, 0}, 9) == std::vector<long>{4, 6, 9, 9});
}

TEST_CASE("a log that is far ahead of the other logs is closed for a while, and no line is lost") {
  // The limit is one of bytes, so long lines reach it with fewer lines.
  constexpr int lines_per_second = 1000, lines = 28'000;
  FakeServer server;
  std::atomic<bool> let_go = false;
  std::atomic<int> opened = 0;
  const std::string filler(800, 'x');
  server.http->Get("/api/v1/namespaces/lab/pods/ahead/log", [&](const httplib::Request& request,
                                                                httplib::Response& response) {
    ++opened;
    const int first = request.has_param("sinceTime")
                          ? static_cast<int>((parse_time(request.get_param_value("sinceTime")).value() -
                                              parse_time("2026-11-21T07:40:00Z").value()) /
                                             milliseconds(1))
                          : 0;
    auto next = std::make_shared<int>(first);
    response.set_chunked_content_provider("text/plain", [&, next](std::size_t, httplib::DataSink& sink) {
      std::string part;
      for (int i = 0; i < lines_per_second && *next < lines; ++i, ++*next)
        part += stamped(*next, std::to_string(*next) + filler);
      if (!sink.write(part.data(), part.size())) let_go = true;
      if (*next == lines) sink.done();
      return !let_go || opened > 1;
    });
  });
  server.http->Get("/api/v1/namespaces/lab/pods/late/log",
                   [&](const httplib::Request&, httplib::Response& response) {
                     eventually([&] { return let_go.load(); });
                     response.set_content(stamped(0, "late"), "text/plain");
                   });
  kube::Client client(server.start());
  int at = -1, wrong = 0;
  bool late = false;
  read_run_logs(client, "lab", {pod_of_rank("ahead", 0), pod_of_rank("late", 1)}, {},
                {.line = [&](const RunLogLine& line) {
                  if (line.text == "late") return late = true;
                  wrong += line.text.starts_with(std::to_string(++at) + "x") ? 0 : 1;
                  return true;
                }});
  CHECK(at == lines - 1);
  CHECK(wrong == 0);
  CHECK(late);
}

TEST_CASE("a log is reported as probably cut if it begins long after its container's start") {
  LogsOfPods cluster;
  cluster.logs["a"] = cut_log();
  kube::Client client(cluster.server.start());
  const auto problems = [&](const json& pod, const LogFilter& filter = {}) {
    Texts said;
    CHECK(read_run_logs(client, "lab", {pod}, filter, &said).size() == (filter.tail ? 1000 : 1100));
    return said;
  };
  const Texts told = {
      "older lines of worker/2 seem to be gone: its log begins 45s after its start, since a node keeps the "
      "newest 10 MiB or so"};
  CHECK(problems(started_at("2026-11-21T07:40:00Z")) == told);
  CHECK(problems(started_at("2026-11-21T07:40:00Z", "terminated")) == told);
  CHECK(problems(started_at("2026-11-21T07:40:44Z")).empty());
  CHECK(problems(pod_of_rank("a", 2)).empty());  // the start of its container is unknown
  CHECK(problems(started_at("2026-11-21T07:40:00Z"), {.tail = 1000}).empty());
  CHECK(problems(started_at("2026-11-21T07:40:00Z"), {.since = seconds(90)}).empty());
  cluster.logs["a"].clear();
  Texts none;
  CHECK(read_run_logs(client, "lab", {started_at("2026-11-21T07:40:00Z")}, {}, &none).empty());
  CHECK(none.empty());
}

}  // namespace
}  // namespace mlk
