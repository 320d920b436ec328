// Tests whether an absent Job counts as not made yet or as gone.
#include "cli/run/facts/absence.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/deciding_job.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/order.h"
#include "cli/run/read/watcher.h"
#include "cli/run/state/report.h"
#include "tests/unit/run/plain_run.h"

TEST_SUITE_BEGIN("run/facts/absence");

namespace mlk {
namespace {

using json = nlohmann::json;

using test::now;
using test::Run;

// A run whose owner records that all objects were made.
struct Made : Run {
  Made() { mark(annotations::created, "r-worker"); }
  void mark(const char* annotation, const std::string& value) {
    objects.owner["metadata"]["annotations"][annotation] = value;
  }
  void lose(const std::string& job) {
    std::erase_if(objects.jobs, [&](const json& each) { return each["metadata"]["name"] == job; });
  }
  RunStatus seen(Time at = now) const { return observe(objects, at); }
};

json owner_of_made(const std::string& made, const std::string& gone = "") {
  return {{"metadata",
           {{"name", "r"}, {"annotations", {{annotations::created, made}, {annotations::gone, gone}}}}}};
}

}  // namespace

TEST_CASE("absence_of() finds out from five signs what the absence of a Job means: `not_yet`, `gone` ...") {
  struct Row {
    JobPresence presence;
    Absence meaning;
  };
  const Row rows[] = {
      {{.there = true}, Absence::none},
      {{.there = true, .made = true, .found_gone = true}, Absence::none},  // somebody has made the Job again
      {{.there = true, .run_deleting = true}, Absence::none},
      {{.run_young = true}, Absence::not_yet},
      {{.run_young = false}, Absence::cut_off},
      {{.run_deleting = true}, Absence::not_yet},
      {{.found_gone = true}, Absence::cut_off},  // the run was made by an earlier mlk
      {{.made = true}, Absence::unsure},
      {{.made = true, .run_young = true}, Absence::unsure},
      {{.made = true, .found_gone = true}, Absence::gone},
      {{.made = true, .found_gone = true, .run_young = true}, Absence::gone},
      {{.made = true, .found_gone = true, .run_deleting = true}, Absence::not_yet},
      {{.made = true, .run_deleting = true}, Absence::not_yet},
  };
  for (const Row& row : rows) CHECK(absence_of(row.presence) == row.meaning);
}

TEST_CASE("absences_to_confirm() leaves out Jobs that are there or already marked as gone") {
  const std::set<std::string> none, one{"a"};
  using Names = std::vector<std::string>;
  CHECK(absences_to_confirm(owner_of_made("a"), none) == Names{"a"});
  CHECK(absences_to_confirm(owner_of_made("a"), one).empty());
  CHECK(absences_to_confirm(owner_of_made("a", "a"), none).empty());
  CHECK(absences_to_confirm(owner_of_made("a", "b"), none) == Names{"a"});
  CHECK(absences_to_confirm(owner_of_made("a,b,c", "b"), one) == Names{"c"});
  CHECK(absences_to_confirm(owner_of_made(""), none).empty());
  CHECK(absences_to_confirm(json::object(), none).empty());
  json owner = owner_of_made("a");
  for (const auto& [phase, looks] : {std::pair{"Succeeded", false}, {"Failed", false}, {"Stopped", true}}) {
    owner["metadata"]["annotations"][annotations::phase] = phase;
    CHECK(absences_to_confirm(owner, none).empty() == !looks);
  }
  owner["metadata"]["deletionTimestamp"] = "2026-01-03T12:00:00Z";
  CHECK(absences_to_confirm(owner, none).empty());
  CHECK(are_gone(owner_of_made("a,b", "a"), {"b"}));
  CHECK(!are_gone(owner_of_made("a,b", "a"), {}));
}

TEST_CASE("name_of_deciding_job() returns the workers' Job, or a Job with a success policy") {
  const auto job = [](const std::string& name, const std::string& role, json spec = json::object()) {
    return json{{"kind", "Job"},
                {"apiVersion", "batch/v1"},
                {"metadata", {{"name", name}, {"labels", {{"mlk.dev/role", role}}}}},
                {"spec", std::move(spec)}};
  };
  const json policy = {{"successPolicy", {{"rules", {{{"succeededCount", 1}}}}}}};
  CHECK(name_of_deciding_job({job("r-server", "server"), job("r-worker", "worker")}) == "r-worker");
  CHECK(name_of_deciding_job({job("r-a", "a"), job("r-learner", "learner", policy)}) == "r-learner");
  CHECK(name_of_deciding_job(
            {{{"kind", "Service"}, {"metadata", {{"name", "r"}}}}, job("r-a", "a", policy)}) == "r-a");
  CHECK(name_of_deciding_job({job("r-prepare", "")}).empty());  // another controller makes the run's own Jobs
  CHECK(name_of_deciding_job({{{"kind", "Service"}, {"metadata", {{"name", "r"}}}}}).empty());
  json other = job("r-a", "a", policy);
  other["apiVersion"] = "batch.volcano.sh/v1alpha1";
  CHECK(name_of_deciding_job({other}).empty());
}

TEST_CASE("if the deciding Job of a run is marked as gone, the run is over, with an unknown result") {
  Made run;
  run.lose("r-worker");
  RunStatus seen = run.seen();
  CHECK(seen.phase == Phase::incomplete);
  CHECK(seen.absence == Absence::unsure);
  CHECK_FALSE(is_over(seen));
  run.mark(annotations::gone, "r-worker");
  seen = run.seen();
  CHECK(seen.phase == Phase::incomplete);
  CHECK(seen.why ==
        "its Job is gone (deleted, or its time to live passed); nobody recorded its end; 3 of its pods still "
        "run; deleting the run ends them");
  CHECK(is_over(seen));
  CHECK(to_json(seen).at("final") == true);
  CHECK(to_json(seen).at("phase") == "Incomplete");
  CHECK(exit_code(seen) == ExitCode::failure);
  // A Job that was made counts as gone also soon after the submit.
  CHECK(run.seen(*parse_time("2026-01-03T11:00:05Z")).absence == Absence::gone);
}

TEST_CASE("a run whose deciding Job is gone has not succeeded, even if the servers' Job has succeeded") {
  Made run;
  run.condition("Complete", "CompletionsReached", "server");
  run.lose("r-worker");
  run.mark(annotations::gone, "r-worker");
  CHECK(run.seen().absence == Absence::gone);
  CHECK(run.phase() == "Incomplete");
}

TEST_CASE("if a Job other than the deciding Job is gone, the run continues and reports the missing Job") {
  Made run;
  run.lose("r-server");
  CHECK(run.phase() == "Running");
  CHECK(run.why() == "the Job of its role server is gone");
  CHECK(run.seen().absence == Absence::none);
}

TEST_CASE("if the Service of a run is gone, the run continues and reports the missing Service") {
  const std::string gone =
      "its Service is gone, so ranks do not find each other; submit the same file again to make it";
  Made run;
  run.objects.service_is_gone = true;
  CHECK(run.phase() == "Running");
  CHECK(run.why() == gone);
  CHECK_FALSE(is_over(run.seen()));
  run.pending(run.pod(0));
  CHECK(run.phase() == "Starting");
  CHECK(run.why() == gone);
  run.fail(run.pod(0), 3);
  CHECK(run.why() == "worker/0: exit code 3 (try 1 of 4, next in 5s); " + gone);
  run.lose("r-server");
  CHECK(run.why().ends_with("; the Job of its role server is gone; " + gone));
  run.condition("Complete");
  CHECK(run.why().empty());
}

TEST_CASE("a pod whose Secret is missing shows the message of its kubelet") {
  Made run;
  run.pending(run.pod(0));
  run.objects.events = {{{"type", "Warning"},
                         {"reason", "FailedMount"},
                         {"message", "MountVolume.SetUp failed for volume \"key\" : secret \"r\" not found"},
                         {"lastTimestamp", "2026-01-03T11:59:00Z"},
                         {"involvedObject", {{"uid", run.pod(0)["metadata"]["uid"]}}}}};
  CHECK(run.why() == "worker/0: MountVolume.SetUp failed for volume \"key\" : secret \"r\" not found");
}

TEST_CASE("after a minute, a missing Job counts as `cut_off` if the run lacks annotations::created") {
  Run run;
  std::erase_if(run.objects.jobs, [](const json& job) { return job["metadata"]["name"] == "r-server"; });
  CHECK(observe(run.objects, now).absence == Absence::cut_off);
  CHECK(observe(run.objects, *parse_time("2026-01-03T11:00:59Z")).absence == Absence::not_yet);
  CHECK(observe(run.objects, *parse_time("2026-01-03T11:01:00Z")).absence == Absence::cut_off);
}

TEST_CASE("a run keeps its recorded end after its Job is gone") {
  Made run;
  run.condition("Complete");
  const json record = to_record(run.seen());
  run.lose("r-worker");
  run.mark(annotations::gone, "r-worker");
  run.mark(annotations::stopped, "2026-01-03T11:30:00Z");
  run.objects.pods.clear();
  const RunStatus stopped = run.seen();
  CHECK(stopped.phase == Phase::stopped);
  CHECK(is_over(stopped));
  CHECK(stopped.why == "its Job is gone, so it cannot go on");
  run.objects.owner["data"]["record"] = record.dump();
  CHECK(run.phase() == "Succeeded");
  CHECK(run.seen().absence == Absence::none);
}

TEST_CASE("with_ended_jobs() keeps the end of a Job that is deleted right after its end") {
  for (const char* end : {"Complete", "Failed"}) {
    Made run;
    run.condition(end);
    run.objects.jobs.front()["metadata"]["ownerReferences"] = {{{"uid", "owner-uid"}}};
    const json last = run.objects.jobs.front();
    run.lose("r-worker");
    const RunObjects known = with_ended_jobs(run.objects, {{"r-worker", last}}, now);
    CHECK(is_final(observe(known, now).phase));
    // A Job of an earlier run of the same name does not show the end of this run.
    json other = last;
    other["metadata"]["ownerReferences"][0]["uid"] = "earlier";
    CHECK(with_ended_jobs(run.objects, {{"r-worker", other}}, now).jobs.size() == 1);
    // A Job that had not ended does not show the end of the run.
    other = last;
    other.erase("status");
    CHECK(with_ended_jobs(run.objects, {{"r-worker", other}}, now).jobs.size() == 1);
  }
}

TEST_CASE("a run whose pods were killed by the deletion of their Job has not failed") {
  Made run;
  run.job()["metadata"]["ownerReferences"] = {{{"uid", "owner-uid"}}};
  run.job()["spec"]["backoffLimitPerIndex"] = 0;
  const json last = run.objects.jobs.front();
  run.lose("r-worker");
  for (int rank = 0; rank < 3; ++rank) {
    run.fail(run.pod(rank), 143);
    run.pod(rank)["metadata"]["deletionTimestamp"] = "2026-01-03T11:59:50Z";
  }
  const RunObjects known = with_ended_jobs(run.objects, {{"r-worker", last}}, now);
  CHECK(observe(known, now).absence == Absence::unsure);
}

TEST_CASE("mlk reads no logs for the result of a run whose deciding Job is gone") {
  Made run;
  CHECK(logs_to_read(run.objects).size() == 3);
  run.lose("r-worker");
  CHECK(logs_to_read(run.objects).empty());
}

TEST_CASE("a suspended Job without pods has lost its pods if it had started") {
  Run run;
  run.objects.pods.clear();
  run.job()["spec"]["suspend"] = true;
  CHECK(run.observed().ranks.at(0).reason == "its pod is gone");
  run.job()["status"].erase("startTime");
  CHECK(run.observed().ranks.at(0).reason == "it has no pod yet");
  CHECK(run.phase() == "Queued");
}

TEST_CASE("the run that was submitted later is newer if two runs were created in the same second") {
  const auto owner = [](const std::string& name, const std::string& created, const std::string& submitted) {
    json out = {
        {"metadata", {{"name", name}, {"creationTimestamp", created}, {"annotations", json::object()}}}};
    if (!submitted.empty()) out["metadata"]["annotations"][annotations::submitted] = submitted;
    return out;
  };
  const std::string one = "2026-01-03T12:00:00Z", two = "2026-01-03T12:00:01Z";
  const json early = owner("x-zz", one, "1767441600000000001"),
             late = owner("x-aa", one, "1767441600000000002");
  CHECK(age_of(early) < age_of(late));
  CHECK(age_of(owner("x-aa", one, "9")) < age_of(owner("x-zz", one, "10")));  // compared as numbers
  CHECK(age_of(late) < age_of(owner("x-aa", two, "1")));                   // the cluster's time counts first
  CHECK(age_of(owner("x-zz", one, "")) < age_of(late));                    // of an earlier mlk
  CHECK(age_of(owner("x-aa", one, "")) < age_of(owner("x-zz", one, "")));  // then the name
  CHECK(age_of(owner("x-zz", one, "12x")) < age_of(early));
  CHECK(submitted_at(Time(std::chrono::nanoseconds(1767441600000000002))) == "1767441600000000002");
}

}  // namespace mlk
