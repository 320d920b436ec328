// Tests which report of the pods of a run counts as the newest.
#include "cli/run/state/report.h"

#include <functional>

#include <doctest/doctest.h>

#include "cli/run/facts/read_facts.h"
#include "cli/run/state/status.h"
#include "tests/unit/run/fixture.h"

TEST_SUITE_BEGIN("run/state/report");

namespace mlk {
namespace {

using json = nlohmann::json;
using namespace std::chrono_literals;

const Time start = *parse_time("2026-01-03T00:00:00Z");

// A run of workers. The newest pod of a rank replaces its earlier pods.
struct Workers {
  RunObjects objects;

  Workers() {
    objects.owner = {{"metadata", {{"name", "r"}, {"labels", {{"mlk.dev/run", "r"}}}}}};
    objects.jobs = {{{"metadata", {{"name", "r-worker"}, {"labels", {{"mlk.dev/role", "worker"}}}}},
                     {"spec", {{"completions", 8}, {"parallelism", 8}}}}};
  }

  json& add(const std::string& uid, int rank, Time at) {
    objects.pods.push_back(
        {{"metadata",
          {{"name", "pod-" + uid},
           {"uid", uid},
           {"creationTimestamp", format_time(at)},
           {"labels", {{"batch.kubernetes.io/job-name", "r-worker"}, {"mlk.dev/role", "worker"}}},
           {"annotations", {{"batch.kubernetes.io/job-completion-index", std::to_string(rank)}}}}},
         {"spec", {{"nodeName", "n"}, {"containers", {{{"name", "main"}}}}}}});
    return objects.pods.back();
  }
  void live(const std::string& uid, int rank, Time at) {
    add(uid, rank, at)["status"] = {
        {"phase", "Running"},
        {"containerStatuses",
         {{{"name", "main"}, {"state", {{"running", {{"startedAt", format_time(at)}}}}}}}}};
  }
  void ended(const std::string& uid, int rank, Time at, Time end, const std::string& message) {
    add(uid, rank, at)["status"] = {{"phase", "Failed"},
                                    {"containerStatuses",
                                     {{{"name", "main"},
                                       {"state",
                                        {{"terminated",
                                          {{"startedAt", format_time(at)},
                                           {"finishedAt", format_time(end)},
                                           {"exitCode", 1},
                                           {"message", message}}}}}}}}};
  }
  void line(const std::string& uid, Time at, long step) {
    objects.lines[uid] = {{step, {{"loss", 0.5}}, {}}, at};
  }
  Report report() const { return newest_report(read_facts(objects), objects); }
  long step() const {
    const Report newest = report();
    return newest.result.is_null() ? -1 : newest.result["step"].get<long>();
  }
  std::string first_log() const {
    const std::vector<LogToRead> logs = logs_to_read(objects);
    return logs.empty() ? "" : logs.front().uid;
  }
};

std::string result(long step, bool done = false) {
  return json{{"schema", 1}, {"step", step}, {"done", done}, {"checkpoint", 7}, {"curve", {{1, 2}}}}.dump();
}

TEST_CASE("the result of a run that has not ended is the newest metrics line of a live rank") {
  Workers run;
  CHECK(run.step() == -1);
  run.live("a", 0, start);
  run.line("a", start + 5s, 40);
  CHECK(run.report().result == json{{"schema", 1}, {"step", 40}, {"metrics", {{"loss", 0.5}}}});
  CHECK(run.report().at == start + 5s);
  const RunStatus status = observe(run.objects, start + 9s);
  CHECK(status.result["step"] == 40);
  CHECK(to_json(status)["result_at"] == format_time(start + 5s));
}

TEST_CASE("the result of a dead pod is not shown after a live pod has reported") {
  Workers run;
  run.ended("a", 0, start, start + 60s, result(7352));
  CHECK(run.step() == 7352);
  run.live("b", 0, start + 70s);
  run.line("b", start + 75s, 7100);  // this pod continued from a checkpoint
  CHECK(run.step() == 7100);
  CHECK(run.report().result["checkpoint"] == 7);
  CHECK_FALSE(run.report().result.contains("curve"));
}

TEST_CASE("the result of a rank that has just ended is shown instead of an older line") {
  Workers run;
  run.live("b", 1, start);
  run.line("b", start + 10s, 500);
  run.ended("a", 0, start, start + 60s, result(900));
  CHECK(run.step() == 900);
  run.line("b", start + 59s, 950);  // in the same second as the end, or by a clock that is behind
  CHECK(run.step() == 950);
}

TEST_CASE("the result of the pod that started last is shown if the pods did not run in parallel") {
  Workers run;
  run.ended("a", 0, start, start + 60s, result(7352));
  run.ended("b", 0, start + 70s, start + 80s, result(7100));
  CHECK(run.step() == 7100);
  run.ended("c", 1, start + 71s, start + 90s, result(300));  // in parallel with b, but behind it
  CHECK(run.step() == 7100);
  run.ended("d", 2, start, start + 20s, result(10, true));
  CHECK(run.step() == 10);  // a trained run stays trained
}

TEST_CASE("the report of the lowest live rank is shown if the ranks report at the same time") {
  Workers run;
  for (int rank = 0; rank < 3; ++rank) run.live(std::to_string(rank), rank, start);
  run.line("0", start + 100s, 10);
  run.line("1", start + 101s, 11);
  CHECK(run.step() == 10);
  run.line("1", start + 200s, 21);
  CHECK(run.step() == 21);
  run.ended("dead", 0, start - 50s, start, "");
  run.line("dead", start + 199s, 99);
  CHECK(run.step() == 21);
}

TEST_CASE("the last metrics line of a program is its result if the program reported no other result") {
  Workers run;
  run.ended("a", 0, start, start + 60s, "starting\nmlk step=3 loss=1\nmlk step=4 loss=0.5\nboom");
  CHECK(run.step() == 4);
  run.objects.pods.clear();
  run.ended("b", 0, start, start + 60s, "");
  CHECK(run.first_log() == "b");
  run.line("b", start + 59s, 8);
  CHECK(run.step() == 8);
}

TEST_CASE("the logs of the lowest live ranks are read") {
  Workers run;
  CHECK(logs_to_read(run.objects).empty());
  for (int rank = 7; rank >= 0; --rank) run.live("live" + std::to_string(rank), rank, start + 100s);
  CHECK(logs_to_read(run.objects).size() == most_logs_of_run);
  CHECK(run.first_log() == "live0");
  CHECK(logs_to_read(run.objects).front().pod == "pod-live0");
  CHECK(logs_to_read(run.objects).front().container == "main");
  run.ended("dead0", 0, start, start + 60s, "");
  std::vector<std::string> uids;
  for (const LogToRead& log : logs_to_read(run.objects)) uids.push_back(log.uid);
  CHECK(uids == std::vector<std::string>{"live0", "live1", "live2", "dead0"});
  run.objects.pods.back()["status"]["phase"] = "Running";  // its node does not answer
  run.objects.pods.back()["status"]["reason"] = "NodeLost";
  for (const LogToRead& log : logs_to_read(run.objects)) CHECK(log.uid != "dead0");
}

TEST_CASE("mlk reads no logs of a run whose results are known") {
  Workers run;
  run.ended("a", 0, start, start + 60s, result(10));
  CHECK(logs_to_read(run.objects).empty());
  run.live("b", 0, start + 70s);
  CHECK(run.first_log() == "b");
  run.objects.owner["data"]["record"] = R"({"schema":1,"phase":"Succeeded","result":{"schema":1,"step":10}})";
  CHECK(logs_to_read(run.objects).empty());
}

TEST_CASE("the numbers of a resumed run replace the numbers that were recorded at the stop") {
  Workers run;
  run.objects.owner["data"]["record"] =
      R"({"schema":1,"phase":"Stopped","result":{"schema":1,"step":1400},"result_at":"2026-01-03T00:01:00Z"})";
  CHECK(observe(run.objects, start).result["step"] == 1400);
  run.live("a", 0, start + 100s);
  run.line("a", start + 105s, 1100);
  CHECK(observe(run.objects, start + 106s).result["step"] == 1100);
}

TEST_CASE(
    "newer_of() takes the second report if it is later or has a higher step, unless only the first is done") {
  const auto told = [](long step, std::optional<Time> at, bool done = false) {
    return Report{json{{"step", step}, {"done", done}}, at};
  };
  const auto newer = [](const Report& earlier, const Report& later) {
    return newer_of(earlier, later).result["step"];
  };
  CHECK(newer(told(10, start), told(5, start + 2s)) == 5);
  CHECK(newer(told(10, start), told(5, start + 1s)) == 10);  // times of pods are whole seconds
  CHECK(newer(told(10, start), told(11, start - 60s)) == 11);
  CHECK(newer(told(10, start), told(10, start)) == 10);
  CHECK(newer(told(10, {}), told(5, start)) == 5);
  CHECK(newer(told(10, start), told(5, {})) == 10);
  CHECK(newer(told(10, start, true), told(11, start + 60s)) == 10);
  CHECK(newer(told(10, start, true), told(11, start + 60s, true)) == 11);
  CHECK(newer({}, told(5, {})) == 5);
  CHECK(newer(told(5, {}), {}) == 5);
  Report first = told(10, start), again = told(10, start + 1s);
  first.result["metrics"] = {{"loss", 0.5}};
  CHECK(newer_of(first, again).result == first.result);  // the same line, read from two sources
  Report earlier = told(10, start), later = told(20, start + 60s);
  earlier.result["checkpoint"] = 7;
  CHECK(newer_of(earlier, later).result["checkpoint"] == 7);
  later.result["checkpoint"] = 15;
  CHECK(newer_of(earlier, later).result["checkpoint"] == 15);
}

TEST_CASE("metrics lines of ranks count as simultaneous if they are at most half a minute apart") {
  Workers run;
  run.live("0", 0, start);
  run.live("1", 1, start);
  run.line("0", start + 100s, 10);
  run.line("1", start + 130s, 11);
  CHECK(run.step() == 10);
  run.line("1", start + 131s, 12);
  CHECK(run.step() == 12);
  run.objects.pods.clear();
  run.ended("0", 0, start, start + 200s, "");
  run.live("1", 1, start);
  CHECK(run.step() == 12);
}

TEST_CASE("the time of a result is the end of its pod") {
  Workers run;
  run.ended("a", 0, start, start + 60s, result(10));
  CHECK(run.report().at == start + 60s);
  run.ended("b", 1, start, start + 90s, result(-3));
  run.ended("c", 2, start, start + 90s, R"({"schema":1,"rank":2,"done":true})");
  CHECK(run.report().at == start + 60s);  // neither rank reports
  run.ended("d", 3, start, start + 90s, result(10));
  CHECK(run.report().at == start + 90s);
}

TEST_CASE("if several pods have ended, the log of the newest pod of the lowest rank is read first") {
  Workers run;
  run.ended("old", 0, start, start + 10s, "");
  run.ended("new", 0, start + 20s, start + 30s, "");
  run.ended("other", 1, start + 40s, start + 50s, "");
  std::vector<std::string> uids;
  for (const LogToRead& log : logs_to_read(run.objects)) uids.push_back(log.uid);
  CHECK(uids == std::vector<std::string>{"new", "old", "other"});
  for (json& pod : run.objects.pods) pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = "r-server";
  CHECK(logs_to_read(run.objects).empty());
  run.objects.jobs.clear();  // the deciding Job is unknown
  CHECK(logs_to_read(run.objects).size() == 3);
}

TEST_CASE("the logs of two ended pods are read even if there are many live ranks") {
  Workers run;
  for (int rank = 0; rank < 6; ++rank) run.live("live" + std::to_string(rank), rank, start + 100s);
  for (int rank = 0; rank < 3; ++rank) run.ended("dead" + std::to_string(rank), rank, start, start + 60s, "");
  std::vector<std::string> uids;
  for (const LogToRead& log : logs_to_read(run.objects)) uids.push_back(log.uid);
  CHECK(uids == std::vector<std::string>{"live0", "live1", "dead0", "dead1"});
  run = Workers();
  run.ended("a", 0, start, start + 60s, "");
  run.objects.pods[0]["status"]["containerStatuses"][0]["state"]["terminated"].erase("startedAt");
  CHECK(logs_to_read(run.objects).empty());
}

TEST_CASE("to_result() keeps at most 64 metrics, and drops names that are not plain text") {
  std::string many = "mlk step=1";
  for (int i = 0; i < 500; ++i) many += " k" + std::to_string(i) + "=1";
  CHECK(to_result(*parse_metrics(many))["metrics"].size() == 64);
  const json told =
      to_result(*parse_metrics("mlk step=2 epoch=3 steps=9 slowest=worker/1 a\x9b=1 b=\xff\xfe loss=nan"));
  CHECK(told["epoch"] == 3);
  CHECK(told["steps"] == 9);
  CHECK(told["metrics"].size() == 2);
  CHECK(told["metrics"]["loss"] == "nan");
  CHECK(told["metrics"]["slowest"] == "worker/1");
  CHECK_NOTHROW(told.dump());
}

TEST_CASE("the logs of a run are read unless its record has an end and a result") {
  Workers run;
  run.live("a", 0, start);
  for (const char* record : {R"({"schema":1,"phase":"Stopped","result":{"schema":1,"step":10}})",
                             R"({"schema":1,"phase":"Failed","result":null})",
                             R"({"schema":1,"phase":"Running","result":{"schema":1,"step":10}})"}) {
    run.objects.owner["data"]["record"] = record;
    CHECK_MESSAGE(run.first_log() == "a", record);
  }
  run.objects.owner["data"]["record"] = R"({"schema":1,"phase":"Failed","result":{"schema":1,"step":10}})";
  CHECK(run.first_log() == "");
}

TEST_CASE("the result with the larger step is shown if results have no times") {
  Workers run;
  run.ended("a", 0, start, start + 60s, result(100));
  run.ended("b", 1, start + 70s, start + 80s, result(50));
  CHECK(run.step() == 50);
  json& end = run.objects.pods[1]["status"]["containerStatuses"][0]["state"]["terminated"];
  end.erase("startedAt");
  CHECK(run.step() == 100);
  end["startedAt"] = format_time(start + 60s);  // in the second in which the other pod ended
  CHECK(run.step() == 50);
  run.objects.pods[0]["status"]["containerStatuses"][0]["state"]["terminated"].erase("finishedAt");
  CHECK(run.step() == 100);
  CHECK_FALSE(run.report().at);
}

TEST_CASE("the log of a pod is the log of its container `main`, or else of its only container") {
  Workers run;
  run.live("a", 0, start);
  run.live("b", 1, start);
  run.objects.pods[1]["spec"]["containers"] = {{{"name", "train"}}, {{"name", "main"}}};
  const std::vector<LogToRead> logs = logs_to_read(run.objects);
  REQUIRE(logs.size() == 2);
  CHECK(logs[0].container == "main");
  CHECK(logs[1].pod == "pod-b");
  CHECK(logs[1].uid == "b");
  CHECK(logs[1].container == "main");
  run.objects.pods[0]["spec"]["containers"] = {{{"name", "train"}}};
  CHECK(logs_to_read(run.objects)[0].container == "train");
}

// A pod that failed by itself. Its last words lack the error.
struct LostWords {
  Workers run;

  LostWords() { fail("a", 60s); }
  void fail(const std::string& uid, std::chrono::seconds end) {
    run.ended(uid, 0, start, start + end, "mlk: rank 3 of MPI ended with exit code 1");
  }
  json& pod() { return run.objects.pods.at(0); }
  json& end() { return pod()["status"]["containerStatuses"][0]["state"]["terminated"]; }
  std::vector<std::string> uids() const {
    std::vector<std::string> out;
    for (const LogToRead& log : endings_to_read(run.objects)) out.push_back(log.uid);
    return out;
  }
};

TEST_CASE("more of a log is read if a pod's own program failed and its error is missing") {
  const auto read = [](const std::function<void(LostWords&)>& change) {
    LostWords words;
    change(words);
    return words.uids().size() == 1;
  };
  CHECK(read([](LostWords&) {}));
  CHECK_FALSE(read([](LostWords& words) { words.pod()["status"]["phase"] = "Running"; }));
  CHECK_FALSE(read([](LostWords& words) { words.pod()["status"]["phase"] = "Succeeded"; }));
  CHECK_FALSE(read([](LostWords& words) { words.end()["exitCode"] = 0; }));
  CHECK_FALSE(read([](LostWords& words) { words.pod()["status"].erase("containerStatuses"); }));
  CHECK_FALSE(read([](LostWords& words) { words.end()["message"] = "ValueError: bad"; }));
  CHECK_FALSE(read([](LostWords& words) { words.end()["message"] = result(3); }));
  CHECK_FALSE(read([](LostWords& words) {
    words.pod()["status"]["conditions"] = {
        {{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "PreemptionByScheduler"}}};
  }));
  // The pod is deleted after the failure, or fails because of the deletion.
  const auto deleted = [](std::chrono::seconds at) {
    return [at](LostWords& words) { words.pod()["metadata"]["deletionTimestamp"] = format_time(start + at); };
  };
  CHECK(read(deleted(60s)));
  CHECK_FALSE(read(deleted(59s)));
  const auto recorded = [](const char* phase) {
    return [phase](LostWords& words) {
      words.run.objects.owner["data"]["record"] = json{{"schema", 1}, {"phase", phase}}.dump();
    };
  };
  CHECK(read(recorded("Stopped")));
  CHECK_FALSE(read(recorded("Failed")));
  CHECK_FALSE(read(recorded("Succeeded")));
}

TEST_CASE("the logs of the three pods that failed first are read for their errors") {
  LostWords words;
  words.fail("b", 50s);
  words.fail("c", 70s);
  CHECK(words.uids() == std::vector<std::string>{"b", "a", "c"});
  words.fail("d", 40s);
  CHECK(words.uids() == std::vector<std::string>{"d", "b", "a"});
  words.run.objects.pods[3]["status"]["containerStatuses"][0]["state"]["terminated"].erase("finishedAt");
  CHECK(words.uids() == std::vector<std::string>{"b", "a", "c"});
  const LogToRead log = endings_to_read(words.run.objects).front();
  CHECK(log.pod == "pod-b");
  CHECK(log.container == "main");
}

TEST_CASE("the log of an ended program is read even if its pod has not ended") {
  Workers run;
  run.ended("a", 0, start, start + 60s, "");
  run.objects.pods[0]["status"]["phase"] = "Running";
  CHECK(run.first_log() == "a");
  run.objects.pods[0]["status"]["reason"] = "NodeLost";
  CHECK(run.first_log() == "");
}

TEST_CASE("the line of the lowest rank is shown if the lines have the same time") {
  Workers run;
  run.live("a", 2, start);
  run.live("b", 1, start);
  run.line("a", start + 5s, 20);
  run.line("b", start + 5s, 10);
  CHECK(run.step() == 10);
  run.live("c", 1, start + 1s);
  run.line("c", start + 6s, 11);
  CHECK(run.step() == 11);
  run.line("c", start + 4s, 11);
  CHECK(run.step() == 10);
}

TEST_CASE("the log of a rank on a lost node is not read") {
  Workers run;
  run.live("a", 0, start);
  run.live("b", 1, start);
  run.line("a", start + 5s, 10);
  run.line("b", start + 5s, 11);
  CHECK(run.step() == 10);
  CHECK(run.first_log() == "a");
  run.objects.pods[0]["status"]["reason"] = "NodeLost";
  CHECK(run.step() == 11);
  CHECK(run.first_log() == "b");
  CHECK(logs_to_read(run.objects).size() == 1);
  run.objects.pods.pop_back();
  CHECK(run.step() == 10);  // the line of this pod is the only report
  CHECK(logs_to_read(run.objects).empty());
}

}  // namespace
}  // namespace mlk
