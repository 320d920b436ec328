// Tests the row of a sweep in lists: from its Jobs alone, and with the reports of its trials.
#include "sweeps/results/rows.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/run/facts/labels.h"
#include "sweeps/trials/sweep_row.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/results/rows");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

json job_of_trials(int number, const json& status) {
  return {{"metadata",
           {{"name", "s-abcde-trials-" + std::to_string(number)},
            {"uid", "j" + std::to_string(number)},
            {"labels", {{"mlk.dev/role", "trial"}, {"mlk.dev/run", "s-abcde"}}}}},
          {"spec", {{"completions", 4}, {"parallelism", 2}, {"backoffLimitPerIndex", 0}}},
          {"status", status}};
}

json end_of_job(const std::string& type, const std::string& reason, const std::string& message = "") {
  return {{{"type", type}, {"status", "True"}, {"reason", reason}, {"message", message}}};
}

// A sweep of four trials that the cluster runs.
RunObjects listed_sweep(std::vector<json> jobs) {
  RunObjects objects;
  objects.owner = test::owner_of("s-abcde", "digits");
  objects.owner["metadata"]["creationTimestamp"] = "2026-11-23T09:00:00Z";
  objects.owner["metadata"]["labels"][labels::sweep] = "s-abcde";
  objects.owner["metadata"]["annotations"] = {{annotations::roles, R"({"trial": 4})"},
                                              {annotations::tags, R"(["a", "b"])"}};
  objects.jobs = std::move(jobs);
  return objects;
}

}  // namespace

TEST_CASE("the row of a sweep has its name, its times, its tags and its trials") {
  const RunStatus row = row_of_sweep(
      listed_sweep({job_of_trials(0, {{"startTime", "2026-11-23T10:00:00Z"}, {"active", 1}}),
                    job_of_trials(1, {{"startTime", "2026-11-23T09:30:00Z"}, {"completedIndexes", "0"}})}));
  CHECK(row.run == "s-abcde");
  CHECK(row.name == "digits");
  CHECK(row.mode == "sweep");
  CHECK(row.created == parse_time("2026-11-23T09:00:00Z"));
  CHECK(row.started == parse_time("2026-11-23T09:30:00Z"));
  CHECK(row.tags == std::vector<std::string>{"a", "b"});
  CHECK(row.steps == 4);
  CHECK(row.result["step"] == 1);
  CHECK(row.phase == Phase::running);
  CHECK(row.why == "");
}

TEST_CASE("the phase in the row of a sweep follows from the states of its Jobs") {
  struct Case {
    json status;
    Phase phase;
    const char* why;
  };
  const json complete = end_of_job("Complete", "CompletionsReached");
  const json failures = end_of_job("Failed", "FailedIndexes", "Job has failed indexes");
  for (const Case& c : std::initializer_list<Case>{
           {json::object(), Phase::scheduling, ""},
           {{{"active", 2}}, Phase::running, ""},
           {{{"active", 1}, {"failedIndexes", "2"}}, Phase::running, "1 of 4 trials failed"},
           {{{"completedIndexes", "0"}}, Phase::running, "no trial runs: mlk status says why"},
           {{{"completedIndexes", "0-3"}, {"conditions", complete}}, Phase::succeeded, ""},
           {{{"completedIndexes", "0-2"}, {"failedIndexes", "3"}, {"conditions", failures}},
            Phase::succeeded,
            "1 of 4 trials failed"},
           {{{"failedIndexes", "0-3"}, {"conditions", failures}},
            Phase::failed,
            "4 of 4 trials failed; mlk status says why"},
           {{{"completedIndexes", "0"},
             {"failedIndexes", "1-2"},
             {"conditions", end_of_job("Failed", "MaxFailedIndexesExceeded", "too many")}},
            Phase::failed,
            "2 of 4 trials failed; too many"},
           {{{"completedIndexes", "0"},
             {"failedIndexes", "1-2"},
             {"conditions", end_of_job("Failed", "MaxFailedIndexesExceeded")}},
            Phase::failed,
            "2 of 4 trials failed; MaxFailedIndexesExceeded"},
           // The end of the Job is decided, but the cluster is still removing the pods of the Job.
           {{{"completedIndexes", "0-3"}, {"conditions", end_of_job("SuccessCriteriaMet", "x")}},
            Phase::succeeded,
            ""},
           // A driver has to start the other trials, so the sweep has not ended with the Job.
           {{{"completedIndexes", "0-2"}, {"conditions", complete}},
            Phase::running,
            "no trial runs: mlk status says why"}}) {
    INFO(c.status.dump());
    const RunStatus row = row_of_sweep(listed_sweep({job_of_trials(0, c.status)}));
    CHECK(row.phase == c.phase);
    CHECK(row.why == c.why);
  }
}

TEST_CASE("the row of a sweep has a final phase when the last Job has ended") {
  const json gave_up = {{"conditions", end_of_job("Failed", "DeadlineExceeded", "too late")}};
  const json gave_up_later = {{"conditions", end_of_job("Failed", "BackoffLimitExceeded", "too often")}};
  const json well = {{"completedIndexes", "0-3"},
                     {"conditions", end_of_job("Complete", "CompletionsReached")}};
  CHECK(row_of_sweep(listed_sweep({job_of_trials(0, well), job_of_trials(1, {{"active", 1}})})).phase ==
        Phase::running);
  CHECK(row_of_sweep(listed_sweep({job_of_trials(0, gave_up), job_of_trials(1, {{"active", 1}})})).phase ==
        Phase::running);
  CHECK(row_of_sweep(listed_sweep({job_of_trials(0, gave_up), job_of_trials(1, well)})).phase ==
        Phase::failed);
  const RunStatus both =
      row_of_sweep(listed_sweep({job_of_trials(0, gave_up), job_of_trials(1, gave_up_later)}));
  CHECK(both.phase == Phase::failed);
  CHECK(both.why == "too late");
}

TEST_CASE("the row of a sweep counts one Job of each run: the Job that decides the end") {
  const auto of_run = [](const char* role, bool decides, const char* type) {
    json job = test::job_of("s-abcde-xy", role);
    job["metadata"]["uid"] = role;
    if (!decides) job["metadata"].erase("annotations");
    job["status"] = {{"conditions", end_of_job(type, "x")}};
    return job;
  };
  const auto row = [&](std::vector<json> jobs) { return row_of_sweep(listed_sweep(std::move(jobs))); };
  CHECK(row({of_run("worker", true, "Complete"), of_run("server", false, "Failed")}).result["step"] == 1);
  CHECK(row({of_run("worker", true, "Complete"), of_run("server", false, "Failed")}).why ==
        "no trial runs: mlk status says why");
  CHECK(row({of_run("worker", false, "Failed")}).why ==
        "1 of 4 trials failed; no trial runs: mlk status says why");
  CHECK(row({of_run("launcher", true, "Complete")}).result["step"] == 1);
}

TEST_CASE("the row of a sweep says that a Job is gone, but not if the sweep is stopped or has ended") {
  RunObjects objects = listed_sweep({});
  json& annotations = objects.owner["metadata"]["annotations"];
  annotations[annotations::created] = "s-abcde-trials-0";
  CHECK(row_of_sweep(objects).absence == Absence::none);  // mlk has not searched for the Job twice
  annotations[annotations::gone] = "s-abcde-trials-0";
  const RunStatus gone = row_of_sweep(objects);
  CHECK(gone.phase == Phase::incomplete);
  CHECK(gone.absence == Absence::gone);
  CHECK(gone.why == std::string(job_is_gone) + "; mlk status says what is known of its trials");
  objects.jobs.push_back(job_of_trials(1, {{"active", 1}}));
  CHECK(row_of_sweep(objects).phase == Phase::running);  // another Job has not finished
  objects.jobs = {job_of_trials(0, json::object())};
  CHECK(row_of_sweep(objects).absence == Absence::none);  // the Job exists
  objects.jobs.clear();
  annotations[annotations::stopped] = "2026-11-23T10:00:00Z";
  CHECK(row_of_sweep(objects).phase == Phase::stopped);
  annotations.erase(annotations::stopped);
  annotations[annotations::phase] = "Succeeded";
  CHECK(row_of_sweep(objects).phase == Phase::succeeded);
}

TEST_CASE("the row of a stopped sweep has the phase `stopped` until another program resumes the Job") {
  RunObjects objects = listed_sweep({job_of_trials(0, {{"active", 1}})});
  objects.owner["metadata"]["annotations"][annotations::stopped] = "2026-11-23T10:00:00Z";
  CHECK(row_of_sweep(objects).phase == Phase::stopped);
  objects.jobs[0]["metadata"]["annotations"][annotations::suspended] = "true";
  CHECK(row_of_sweep(objects).phase == Phase::running);
  objects.jobs[0]["spec"]["suspend"] = true;
  CHECK(row_of_sweep(objects).phase == Phase::stopped);
}

TEST_CASE("with_status() copies the phase, reason, counts and times of a sweep to the sweep's row") {
  RunStatus row;
  row.run = "s-abcde";
  row.steps = 99;
  SweepStatus status;
  status.phase = Phase::failed;
  status.counts = {.waiting = 1, .running = 2, .succeeded = 3, .failed = 4, .stopped = 5};
  status.started = Time(std::chrono::seconds(1));
  status.ended = Time(std::chrono::seconds(2));
  status.cannot_start = true;
  const RunStatus with = with_status(row, status);
  CHECK(with.run == "s-abcde");
  CHECK(with.phase == Phase::failed);
  CHECK(with.why == "4 of 15 trials failed");
  CHECK(with.steps == 15);
  CHECK(with.result["step"] == 7);
  CHECK(with.started == status.started);
  CHECK(with.ended == status.ended);
  CHECK(with.cannot_start);
  status.why = "no nodes";
  CHECK(with_status(row, status).why == "no nodes");
  status.why.clear();
  status.counts.failed = 0;
  CHECK(with_status(row, status).why == "");
}

TEST_CASE("a list has a row for each sweep, even for a sweep that cannot be read in full") {
  test::Sweeper sweeper(
      "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\nsweep: {parallel: "
      "2}\n");
  const std::string sweep = sweeper.start({"lr=0.1,0.2,0.3"}).sweep;
  sweeper.set_job_status(sweep + "-trials-0", "0-2");
  sweeper.cluster.ask("POST", test::config_maps_path, test::owner_of("y-abcde", "y"));
  kube::Client client(sweeper.cluster.config());
  const auto list = [&] {
    return list_runs_and_sweeps(client, "default", std::chrono::system_clock::now(), {});
  };
  const std::vector<RunStatus> rows = list();
  REQUIRE(rows.size() == 2);
  const RunStatus& read = rows[0].run == sweep ? rows[0] : rows[1];
  const RunStatus& run = rows[0].run == sweep ? rows[1] : rows[0];
  CHECK(read.phase == Phase::succeeded);
  CHECK(read.steps == 3);
  CHECK(read.ended.has_value());  // the row from the Jobs alone has no end
  CHECK(run.run == "y-abcde");
  CHECK(run.mode == "single");
  sweeper.cluster.before([](const local::Request& asked) -> std::optional<local::Answer> {
    const auto selector = asked.query.find("labelSelector");
    const bool of_one = selector != asked.query.end() && selector->second.find('=') != std::string::npos &&
                        selector->second.find("mlk.dev/sweep=") == 0;
    if (!of_one) return std::nullopt;
    return test::refusal(403, "Forbidden", "no");
  });
  const std::vector<RunStatus> unread = list();
  REQUIRE(unread.size() == 2);
  const RunStatus& row = unread[0].run == sweep ? unread[0] : unread[1];
  CHECK(row.phase == Phase::succeeded);
  CHECK_FALSE(row.ended.has_value());
}
