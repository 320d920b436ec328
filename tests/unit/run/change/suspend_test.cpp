#include "cli/run/change/suspend.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "cli/run/read/find.h"
#include "cli/run/state/status.h"
#include "cli/util/json_path.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("run/change/suspend");

namespace {

using namespace mlk;
using nlohmann::json;
using test::FakeCluster;

// A run with two Jobs.
struct RunOfTwo : FakeCluster {
  kube::Client client{config()};

  RunOfTwo() {
    json owner = test::owner_of("r");
    owner["metadata"]["namespace"] = "default";
    store.create("configmaps", owner);
    for (const char* role : {"server", "worker"}) ask("POST", test::jobs_path, test::job_of("r", role));
  }
  RunObjects read() { return fetch_run(client, "default", "r"); }
  std::string annotation(const char* name) {
    return text_of(read().owner, {"metadata", "annotations", name});
  }
  int suspended() {
    int count = 0;
    for (const json& job : read().jobs) count += at_path(job, {"spec", "suspend"}) == true ? 1 : 0;
    return count;
  }
  void suspend_as_another(const std::string& job, bool suspended) {
    ask("PATCH", test::jobs_path + "/" + job, {{"spec", {{"suspend", suspended}}}},
        "application/merge-patch+json");
  }
  void annotate_owner(const char* name, const char* value) {
    ask("PATCH", test::config_maps_path + "/r", {{"metadata", {{"annotations", {{name, value}}}}}},
        "application/merge-patch+json");
  }
  // The phase of the run, read from the store without a request of mlk.
  Phase phase_in_store() {
    RunObjects objects;
    objects.owner = ask("GET", test::config_maps_path + "/r");
    for (const char* role : {"server", "worker"})
      objects.jobs.push_back(ask("GET", test::jobs_path + "/r-" + role));
    return observe(objects, std::chrono::system_clock::now()).phase;
  }
  // Answers each patch of a Job with this status, except the first `first` patches.
  void refuse_jobs(int status, int first) {
    const auto seen = std::make_shared<int>(0);
    before([=](const local::Request& request) -> std::optional<local::Answer> {
      const bool is_of_job = request.method == "PATCH" && request.path.find("/jobs/") != std::string::npos;
      if (!is_of_job || (*seen)++ < first) return std::nullopt;
      return test::refusal(status, "No", "no");
    });
  }
};

}  // namespace

TEST_CASE("suspend_run() marks the run and suspends its Jobs, and resume_run() undoes both") {
  RunOfTwo run;
  suspend_run(run.client, "default", run.read(), {{"mlk.dev/why", "tired"}});
  CHECK(run.suspended() == 2);
  CHECK(is_marked_stopped(run.read().owner));
  CHECK(run.annotation("mlk.dev/why") == "tired");
  resume_run(run.client, "default", run.read(),
             {{"metadata", {{"annotations", {{"mlk.dev/why", nullptr}}}}}});
  CHECK(run.suspended() == 0);
  CHECK_FALSE(is_marked_stopped(run.read().owner));
  CHECK(run.annotation("mlk.dev/why").empty());
}

TEST_CASE("suspend_run() leaves the run as it was if the server refuses to suspend the first Job") {
  RunOfTwo run;
  run.refuse_jobs(403, 0);
  CHECK_THROWS_AS(suspend_run(run.client, "default", run.read(), {{"mlk.dev/why", "tired"}}), kube::ApiError);
  CHECK_FALSE(is_marked_stopped(run.read().owner));
  CHECK(run.annotation("mlk.dev/why").empty());
  CHECK(run.suspended() == 0);
}

TEST_CASE("a failed stop keeps the stop mark unless the server refuses to suspend the first Job") {
  for (const auto& [status, first] : {std::pair(403, 1), {404, 0}, {409, 0}, {503, 0}}) {
    CAPTURE(status);
    RunOfTwo run;
    run.refuse_jobs(status, first);
    CHECK_THROWS_AS(suspend_run(run.client, "default", run.read()), kube::ApiError);
    CHECK(is_marked_stopped(run.read().owner));
    CHECK(run.suspended() == first);
    run.before(nullptr);
    suspend_run(run.client, "default", run.read());
    CHECK(run.suspended() == 2);
  }
}

TEST_CASE("a repeated stop keeps the time of the first stop") {
  RunOfTwo run;
  suspend_run(run.client, "default", run.read());
  const std::string since = run.annotation(annotations::stopped);
  suspend_run(run.client, "default", run.read(), {{"mlk.dev/why", "tired"}});
  CHECK(run.annotation(annotations::stopped) == since);
  CHECK(run.annotation("mlk.dev/why") == "tired");
}

TEST_CASE("a run does not count as stopped if another program has resumed it after the stop") {
  RunOfTwo run;
  const auto phase = [&] { return observe(run.read(), std::chrono::system_clock::now()).phase; };
  for (const json& job : run.read().jobs) run.suspend_as_another(kube::name_of(job), true);
  suspend_run(run.client, "default", run.read());  // the Jobs of this run wait in a queue
  CHECK(phase() == Phase::stopped);
  for (const json& job : run.read().jobs) run.suspend_as_another(kube::name_of(job), false);
  CHECK(phase() != Phase::stopped);
  CHECK(is_marked_stopped(run.read().owner));
  run.annotate_owner(annotations::stopped, "2001-01-01T00:00:00Z");
  suspend_run(run.client, "default", run.read());
  CHECK(phase() == Phase::stopped);
  CHECK(run.annotation(annotations::stopped) > "2001-01-01T00:00:00Z");
  run.suspend_as_another("r-worker", false);
  resume_run(run.client, "default", run.read());
  CHECK(run.suspended() == 0);
  CHECK_FALSE(is_marked_stopped(run.read().owner));
  suspend_run(run.client, "default", run.read());
  CHECK(phase() == Phase::stopped);
}

TEST_CASE("a run never looks resumed by another program while mlk stops or resumes it") {
  RunOfTwo run;
  for (int i = 0; i < 2; ++i) {
    std::vector<Phase> seen;
    run.before([&](const local::Request& request) -> std::optional<local::Answer> {
      if (request.method == "PATCH") seen.push_back(run.phase_in_store());
      return std::nullopt;
    });
    suspend_run(run.client, "default", run.read());
    seen.push_back(run.phase_in_store());
    REQUIRE(seen.size() == 4);  // before the patches of the owner and of both Jobs, and at the end
    CHECK(seen[0] != Phase::stopped);
    CHECK(std::count(seen.begin(), seen.end(), Phase::stopped) == 3);
    seen.clear();
    resume_run(run.client, "default", run.read());
    CHECK(seen == std::vector(3, Phase::stopped));
    CHECK(run.phase_in_store() != Phase::stopped);
    run.before(nullptr);
  }
}

TEST_CASE("a Job counts as resumed by another command if it is not suspended and has a newer generation") {
  RunOfTwo run;
  const Generations left = suspend_run(run.client, "default", run.read());
  REQUIRE(left.size() == 2);
  CHECK_FALSE(was_resumed(run.read(), left));
  set_suspended(run.client, "default", run.read().jobs, false);
  CHECK(was_resumed(run.read(), left));
  CHECK_FALSE(was_resumed(run.read(), {}));
}
