// Tests that mlk shows pods that still run although their Job is gone, and starts no training beside these
// pods.
#include "cli/run/facts/pods_left.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/labels.h"
#include "cli/run/facts/read_facts.h"
#include "cli/run/read/find.h"
#include "cli/run/state/record.h"
#include "tests/unit/run/plain_run.h"

TEST_SUITE_BEGIN("run/facts/pods_left");

namespace mlk {
namespace {

using json = nlohmann::json;
using test::now;

const std::string told_gone =
    "its Job is gone (deleted, or its time to live passed); nobody recorded its end";

json references_to(const std::string& uid) { return {{{"kind", "Job"}, {"uid", uid}, {"controller", true}}}; }

// A run of three workers and a server. The workers' Job was deleted, and its pods continue without an owner.
struct LeftRun : test::Run {
  LeftRun() {
    objects.owner["metadata"]["annotations"][annotations::created] = "r-worker";
    for (json& pod : objects.pods) pod["metadata"]["labels"][labels::run] = "r";
    server()["metadata"]["ownerReferences"] = references_to("uid-of-server");
    lose("r-worker");
    objects.owner["metadata"]["annotations"][annotations::gone] = "r-worker";
  }
  void lose(const std::string& job) {
    std::erase_if(objects.jobs, [&](const json& each) { return each["metadata"]["name"] == job; });
  }
  void ask_to_end(json& pod) { pod["metadata"]["deletionTimestamp"] = "2026-01-03T12:00:20Z"; }
  // The ranks, such as "worker/0 Running".
  std::vector<std::string> ranks() const {
    std::vector<std::string> out;
    for (const RankStatus& rank : observed().ranks)
      out.push_back(rank.role + "/" + std::to_string(rank.rank) + " " + rank.state +
                    (rank.reason.empty() ? "" : ": " + rank.reason));
    return out;
  }
};

using RankLines = std::vector<std::string>;

}  // namespace

TEST_CASE("pods whose Job is gone are listed as ranks, and the run's reason says how many they are") {
  LeftRun run;
  CHECK(run.ranks() ==
        RankLines{"server/0 Running", "worker/0 Running", "worker/1 Running", "worker/2 Running"});
  CHECK(run.observed().pods_left == 3);
  CHECK(run.why() == told_gone + "; 3 of its pods still run; deleting the run ends them");
  CHECK(run.phase() == "Incomplete");
  CHECK(is_over(run.observed()));
  CHECK(exit_code(run.observed()) == ExitCode::failure);
  const json told = to_json(run.observed());
  CHECK(told.at("why") == run.why());
  CHECK(told.at("ranks").size() == 4);
  CHECK(told.at("ranks").at(1).at("pod") == "r-worker-0-0");
  // `ls` observes the same objects, so it shows the same reason.
  const std::vector<RunStatus> listed = observe_all({run.objects}, now);
  CHECK(listed.at(0).why == run.why());
}

TEST_CASE("the number of pods in the run's reason does not include ended pods") {
  LeftRun run;
  run.pending(run.pod(0), false);
  run.fail(run.pod(1), 3);
  run.finish(run.pod(2));
  CHECK(run.ranks() == RankLines{"server/0 Running", "worker/0 Pending", "worker/1 Failed: exit code 3",
                                 "worker/2 Succeeded"});
  CHECK(run.why() == told_gone + "; one of its pods still runs; deleting the run ends it");
  CHECK_FALSE(run.observed().first_failure);  // no end is recorded, so the run has not failed
  run.finish(run.pod(0));
  CHECK(run.why() == told_gone);
  CHECK(run.observed().pods_left == 0);
}

TEST_CASE("pods whose deletion was requested are reported as ending until they have ended") {
  LeftRun run;
  run.ask_to_end(run.pod(0));
  CHECK(run.observed().pods_left == 3);
  CHECK(run.observed().pods_ending == 1);
  for (int rank = 1; rank < 3; ++rank) run.ask_to_end(run.pod(rank));
  CHECK(run.observed().pods_ending == 3);
  CHECK(run.why() == told_gone + "; 3 of its pods are still ending");
  CHECK(run.ranks().at(1) == "worker/0 Running: it is ending");
  run.fail(run.pod(0), 143);
  run.fail(run.pod(1), 143);
  CHECK(run.why() == told_gone + "; one of its pods is still ending");
  CHECK(run.observed().pods_left == 1);
}

TEST_CASE("pods_left() returns each pod that has not ended although its Job is gone") {
  struct Row {
    const char* what;
    bool is_left;
    std::function<void(LeftRun&, json&)> change;
  };
  const Row rows[] = {
      {"without an owner", true, [](LeftRun&, json&) {}},
      {"collected, since its owner is gone", true,
       [](LeftRun&, json& pod) { pod["metadata"]["ownerReferences"] = references_to("uid-of-worker"); }},
      {"on a lost node", true, [](LeftRun&, json& pod) { pod["status"]["reason"] = "NodeLost"; }},
      {"made in the second of the owner", true,
       [](LeftRun& run, json& pod) {
         run.objects.owner["metadata"]["creationTimestamp"] = pod["metadata"]["creationTimestamp"] =
             "2026-01-03T11:59:00Z";
       }},
      {"older than the owner: of an earlier run of that name", false,
       [](LeftRun& run, json& pod) {
         run.objects.owner["metadata"]["creationTimestamp"] = "2026-01-03T11:59:00Z";
         pod["metadata"]["creationTimestamp"] = "2026-01-03T11:58:59Z";
       }},
      {"of a Job that is there", false,
       [](LeftRun&, json& pod) { pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = "r-server"; }},
      {"ended well", false, [](LeftRun& run, json& pod) { run.finish(pod); }},
      {"ended badly", false, [](LeftRun& run, json& pod) { run.fail(pod, 1); }},
      {"of no Job", false,
       [](LeftRun&, json& pod) { pod["metadata"]["labels"].erase("batch.kubernetes.io/job-name"); }},
      {"of another controller's role", false,
       [](LeftRun&, json& pod) {
         pod["metadata"]["ownerReferences"] = references_to("uid-of-set");
         pod["metadata"]["labels"]["mlk.dev/role"] = "replica";
       }},
      {"of another controller's role, without an owner", true,
       [](LeftRun&, json& pod) { pod["metadata"]["labels"]["mlk.dev/role"] = "replica"; }},
  };
  for (const Row& row : rows) {
    LeftRun run;
    run.finish(run.pod(1));
    run.finish(run.pod(2));
    row.change(run, run.pod(0));
    CHECK_MESSAGE(pods_left(read_facts(run.objects)).size() == (row.is_left ? 1 : 0), row.what);
  }
}

TEST_CASE("jobs_with_pods_left() names each gone Job whose pods still run") {
  LeftRun run;
  run.lose("r-server");
  run.server()["metadata"].erase("ownerReferences");
  CHECK(jobs_with_pods_left(run.objects) == std::set<std::string>{"r-server", "r-worker"});
  test::Run whole;
  CHECK(jobs_with_pods_left(whole.objects).empty());
  std::erase_if(whole.objects.jobs, [](const json& job) { return job["metadata"]["name"] == "r-server"; });
  whole.objects.owner["metadata"]["annotations"][annotations::created] = "r-worker";
  CHECK(whole.phase() == "Running");
  CHECK(whole.why() == "the Job of its role server is gone");
  CHECK(whole.state(3) == "Running");
  CHECK(whole.observed().restarts == 0);
}

TEST_CASE("a missing Job whose pods still run is reported as gone even without annotations::created") {
  LeftRun run;
  run.objects.owner["metadata"]["annotations"].erase(annotations::created);
  CHECK(run.observed().absence == Absence::cut_off);
  CHECK(run.why() == "a Job of it is gone; 3 of its pods still run; deleting the run ends them");
}

TEST_CASE("a stopped run without its Job reports how many of its pods still run") {
  LeftRun run;
  run.stop();
  CHECK(run.phase() == "Stopped");
  CHECK(run.why() ==
        "its Job is gone, so it cannot go on; 3 of its pods still run; deleting the run ends them");
}

TEST_CASE("a run keeps its recorded end while pods of a gone Job still run") {
  LeftRun run;
  LeftRun ended;
  RunStatus status = ended.observed();
  status.phase = Phase::failed;
  status.why = "worker/0: exit code 3";
  status.ranks.clear();
  run.objects.owner.merge_patch(record_patch(status));
  CHECK(run.phase() == "Failed");
  CHECK(run.why() == "worker/0: exit code 3");
  CHECK(run.observed().pods_left == 3);
}

}  // namespace mlk
