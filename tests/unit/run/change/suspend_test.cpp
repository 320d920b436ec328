#include "cli/run/change/suspend.h"

#include <memory>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/run/facts/labels.h"
#include "cli/run/read/find.h"
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

TEST_CASE("a stop marks a run and suspends its Jobs, and a resume removes the mark and resumes the Jobs") {
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

TEST_CASE("a stop whose first Job is refused leaves the run as it was") {
  RunOfTwo run;
  run.refuse_jobs(403, 0);
  CHECK_THROWS_AS(suspend_run(run.client, "default", run.read(), {{"mlk.dev/why", "tired"}}), kube::ApiError);
  CHECK_FALSE(is_marked_stopped(run.read().owner));
  CHECK(run.annotation("mlk.dev/why").empty());
  CHECK(run.suspended() == 0);
}

TEST_CASE(
    "a failed stop keeps its mark if only a later Job is refused, or if the answer has the status 404, 409 "
    "or 503") {
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

TEST_CASE("a repeated stop keeps the time of the first stop and adds its own annotations") {
  RunOfTwo run;
  suspend_run(run.client, "default", run.read());
  const std::string since = run.annotation(annotations::stopped);
  suspend_run(run.client, "default", run.read(), {{"mlk.dev/why", "tired"}});
  CHECK(run.annotation(annotations::stopped) == since);
  CHECK(run.annotation("mlk.dev/why") == "tired");
}

TEST_CASE(
    "a Job counts as resumed by another command if it is not suspended and has a later generation than at "
    "the stop") {
  RunOfTwo run;
  const Generations left = suspend_run(run.client, "default", run.read());
  REQUIRE(left.size() == 2);
  CHECK_FALSE(was_resumed(run.read(), left));
  set_suspended(run.client, "default", run.read().jobs, false);
  CHECK(was_resumed(run.read(), left));
  CHECK_FALSE(was_resumed(run.read(), {}));
}
