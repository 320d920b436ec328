// Tests the facts about Jobs that do not decide, and the values that are shown for unknown facts.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/facts.h"
#include "cli/run/facts/metrics.h"
#include "cli/run/facts/read_facts.h"
#include "cli/run/read/find.h"
#include "cli/run/state/record.h"
#include "tests/unit/run/plain_run.h"

TEST_SUITE_BEGIN("run/state/observed_facts");

namespace mlk {
namespace {

using json = nlohmann::json;
using test::now;
using test::Run;

TEST_CASE("the end time of a succeeded run is that of the last good rank of its deciding Job") {
  Run run;
  run.job()["metadata"]["annotations"]["mlk.dev/trains"] = "true";
  run.job()["metadata"]["annotations"]["mlk.dev/decides"] = "true";
  run.finish(run.pod(1));
  run.fail(run.pod(2), 3, "2026-01-03T11:59:59Z");
  run.finish(run.server());
  run.server()["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] =
      "2026-01-03T11:59:58Z";
  run.job()["status"]["completedIndexes"] = "1";
  run.condition("FailureTarget", "Because", "server");
  const Facts facts = read_facts(run.objects);
  REQUIRE(facts.jobs.size() == 2);
  CHECK(facts.jobs[0].name == "r-worker");
  CHECK(facts.jobs[0].end == JobFacts::End::succeeded);
  CHECK(facts.jobs[0].ended_at == parse_time("2026-01-03T11:59:55Z"));
  CHECK(facts.jobs[1].name == "r-server");
  CHECK(facts.jobs[1].end == JobFacts::End::succeeded);
  CHECK(facts.jobs[1].ended_at == parse_time("2026-01-03T11:58:00Z"));
  CHECK_FALSE(facts.jobs[1].failing);
  CHECK(facts.jobs[1].end_reason.empty());
  run.job("server")["status"].erase("conditions");
  CHECK_FALSE(read_facts(run.objects).jobs[1].ended_at);
}

TEST_CASE("a good rank without an end time does not affect the end time of the run") {
  Run run;
  run.job()["status"]["completedIndexes"] = "0-2";
  run.finish(run.pod(1));
  run.pod(0)["status"] = {{"phase", "Succeeded"}};
  run.pod(2)["status"] = {{"phase", "Succeeded"}};
  CHECK(read_facts(run.objects).jobs[0].ended_at == parse_time("2026-01-03T11:59:55Z"));
  run.pod(1)["status"] = {{"phase", "Succeeded"}};
  CHECK_FALSE(read_facts(run.objects).jobs[0].ended_at);
}

TEST_CASE("PodFacts and JobFacts have default values") {
  const PodFacts pod;
  CHECK(pod.rank == 0);
  CHECK_FALSE(pod.scheduled);
  CHECK_FALSE(pod.deleting);
  CHECK_FALSE(pod.node_lost);
  CHECK(pod.failures_before == 0);
  CHECK(pod.counted_before == 0);
  CHECK_FALSE(pod.trained);
  CHECK_FALSE(pod.final);
  CHECK_FALSE(pod.ended());
  const JobFacts job;
  CHECK(job.completions == 1);
  CHECK(job.parallelism == 1);
  CHECK(job.needed == 1);
  CHECK(job.enough == 1);
  CHECK(job.attempts == 1);
  CHECK(job.active == 0);
  CHECK(job.time_limit == 0);
  CHECK(job.end == JobFacts::End::none);
  for (const bool flag : {job.decides, job.trains, job.has_success_policy, job.suspended, job.deleting,
                          job.replaced_when_terminating, job.finished, job.ending, job.failing})
    CHECK_FALSE(flag);
}

TEST_CASE("the JSON of a status has every key even if nothing is known") {
  json known = {{"run", ""},
                {"name", ""},
                {"mode", ""},
                {"phase", "Incomplete"},
                {"why", ""},
                {"created", nullptr},
                {"started", nullptr},
                {"ended", nullptr},
                {"restarts", 0},
                {"steps", 0},
                {"result", nullptr},
                {"result_at", nullptr},
                {"first_failure", nullptr},
                {"last_failure", nullptr},
                {"last_checkpoint", ""},
                {"ranks", json::array()}};
  json record = known;
  record["schema"] = 1;
  CHECK(to_record(RunStatus{}) == record);
  known.update({{"cannot_start", false},
                {"final", false},
                {"checkpoint", nullptr},
                {"outputs", nullptr},
                {"experiment", nullptr},
                {"owner", nullptr},
                {"tags", json::array()},
                {"note", ""},
                {"commit", ""}});
  CHECK_MESSAGE(to_json(RunStatus{}) == known, json::diff(known, to_json(RunStatus{})).dump(),
                ": scripts rely on these keys; a new one belongs into this list and man/mlk-status.1");
}

TEST_CASE("the JSON of a failure and of a rank has every key even if nothing is known") {
  RunStatus status;
  status.first_failure = Failure{};
  status.ranks.resize(1);
  CHECK(to_json(status)["first_failure"] == json{{"role", ""},
                                                 {"rank", 0},
                                                 {"exit_code", 0},
                                                 {"signal", 0},
                                                 {"container", ""},
                                                 {"reason", ""},
                                                 {"message", ""},
                                                 {"disruption", false},
                                                 {"attempt", 1},
                                                 {"attempts", 1},
                                                 {"at", nullptr},
                                                 {"next", nullptr}});
  CHECK(to_json(status)["ranks"] == json::array({{{"role", ""},
                                                  {"rank", 0},
                                                  {"pod", ""},
                                                  {"node", ""},
                                                  {"state", ""},
                                                  {"restarts", 0},
                                                  {"reason", ""},
                                                  {"since", nullptr}}}));
  CHECK(to_record(status)["ranks"] == json::array({{{"role", ""},
                                                    {"rank", 0},
                                                    {"state", ""},
                                                    {"node", ""},
                                                    {"restarts", 0},
                                                    {"reason", ""},
                                                    {"since", nullptr}}}));
  status.ranks[0].reason = std::string(2000, 'x');
  CHECK(to_record(status)["ranks"][0]["reason"] == std::string(500, 'x'));
}

TEST_CASE("values that are missing in a record get their defaults") {
  const std::optional<RunStatus> read = from_record(
      {{"schema", 1}, {"phase", "Failed"}, {"ranks", {json::object()}}, {"first_failure", json::object()}});
  REQUIRE(read);
  CHECK(read->restarts == 0);
  CHECK(read->steps == 0);
  CHECK(read->result.is_null());
  CHECK_FALSE(read->created);
  CHECK_FALSE(read->last_failure);
  REQUIRE(read->ranks.size() == 1);
  CHECK(read->ranks[0].rank == 0);
  CHECK(read->ranks[0].restarts == 0);
  REQUIRE(read->first_failure);
  CHECK(read->first_failure->rank == 0);
  CHECK(read->first_failure->exit_code == -1);
  CHECK(read->first_failure->signal == 0);
  CHECK(read->first_failure->attempt == 1);
  CHECK(read->first_failure->attempts == 1);
  CHECK_FALSE(read->first_failure->disruption);
  CHECK_FALSE(from_record({{"schema", 2}, {"phase", "Failed"}}));
  CHECK_FALSE(from_record({{"schema", 1}, {"phase", "Done"}}));
  CHECK_FALSE(from_record(json::array()));
}

TEST_CASE("the summary of a record has no ranks and no curve") {
  RunStatus status = Run().observed();
  status.phase = Phase::failed;
  status.result = {{"schema", 1}, {"step", 3}, {"curve", {1, 2}}};
  status.first_failure = test::failure(1, "lost " + std::string(300, 'x'));
  status.last_failure = test::failure(2, std::string(300, 'y'));
  const json patch = record_patch(status);
  const std::string text = patch["metadata"]["annotations"]["mlk.dev/summary"];
  const json summary = json::parse(text);
  CHECK(text == summary.dump());  // one line, without spaces
  json expected = to_record(status);
  expected.erase("ranks");
  expected["result"].erase("curve");
  expected["first_failure"]["message"] = std::string(300, 'x');
  CHECK(summary == expected);
  CHECK(patch["metadata"]["annotations"]["mlk.dev/phase"] == "Failed");
  CHECK(patch["data"]["record"] == to_record(status).dump());
  CHECK(record_removal_patch() ==
        json{{"metadata", {{"annotations", {{"mlk.dev/phase", nullptr}, {"mlk.dev/summary", nullptr}}}}},
             {"data", {{"record", nullptr}}}});
}

TEST_CASE("recorded_status() reads the summary if the record is larger than half a MiB") {
  json owner = {{"metadata", {{"annotations", {{"mlk.dev/summary", R"({"schema":1,"phase":"Stopped"})"}}}}}};
  const auto record_of = [](std::size_t bytes) {
    std::string text = R"({"schema":1,"phase":"Failed","why":""})";
    text.insert(text.size() - 2, std::string(bytes - text.size(), 'x'));
    return text;
  };
  owner["data"]["record"] = record_of(512 * 1024);
  REQUIRE(recorded_status(owner));
  CHECK(recorded_status(owner)->phase == Phase::failed);
  owner["data"]["record"] = record_of(512 * 1024 + 1);
  REQUIRE(recorded_status(owner));
  CHECK(recorded_status(owner)->phase == Phase::stopped);
}

TEST_CASE("if runs were created in the same second, observe_all() sorts them by name in reverse order") {
  std::vector<RunObjects> runs;
  for (const char* name : {"b", "c", "a"}) {
    Run run;
    run.objects.owner["metadata"]["name"] = name;
    runs.push_back(run.objects);
  }
  runs.front().owner["metadata"]["creationTimestamp"] = "2026-01-03T10:00:00Z";
  std::string order;
  for (const RunStatus& status : observe_all(runs, now)) order += status.run;
  CHECK(order == "cab");
}

TEST_CASE("a word of a metrics line has no control characters") {
  const std::optional<Metrics> metrics =
      parse_metrics("mlk step=1 a\x7f=1 b=x\x7f c=\x1f d=~ e=! \tf=2 g=3\x01");
  REQUIRE(metrics);
  CHECK(metrics->words == std::map<std::string, std::string>{{"d", "~"}, {"e", "!"}});
  CHECK(metrics->values.empty());
}

}  // namespace
}  // namespace mlk
