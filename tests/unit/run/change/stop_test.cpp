// Tests that several runs are stopped together, also if the stop of one run fails.
#include "cli/run/change/stop.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/run/change/first_error.h"
#include "cli/util/json_path.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("run/change/stop");

namespace mlk {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

// Runs of one worker each, whose pods do not end: the cluster has no controllers.
struct RunsToStop : test::FakeCluster {
  std::vector<std::string> runs, warnings;
  std::function<bool()> interrupted = [] { return false; };

  explicit RunsToStop(int count) {
    for (int i = 0; i < count; ++i) {
      runs.push_back("r-" + std::to_string(i));
      ask("POST", test::config_maps_path, test::owner_of(runs.back()));
      ask("POST", test::jobs_path, test::job_of(runs.back()));
      store.create("pods", test::pod_of(runs.back(), "Running"));
    }
  }
  void end_pod(const std::string& run) {
    store.modify("pods", "default", run + "-worker-0-abcde",
                 [](json& pod) { pod["status"]["phase"] = "Failed"; });
  }
  // Stops all runs. Returns the error of the stop; without an error, an Error with ExitCode::ok.
  Error stop(std::chrono::seconds timeout) {
    kube::Client client(config());
    try {
      stop_runs(client, runs, timeout,
                {.note = [](const std::string&) {},
                 .warn = [this](const std::string& text) { warnings.push_back(text); },
                 .interrupted = interrupted,
                 .command = [](const std::string& words) { return "mlk " + words; }});
    } catch (const Error& error) {
      return error;
    }
    return {ExitCode::ok, ""};
  }
  int suspended() {
    int count = 0;
    for (const std::string& run : runs) {
      const json job = ask("GET", test::jobs_path + "/" + run + "-worker");
      count += at_path(job, {"spec", "suspend"}) == true ? 1 : 0;
    }
    return count;
  }
  bool is_recorded(const std::string& run) {
    return at_path(ask("GET", test::config_maps_path + "/" + run), {"data", "record"}).is_string();
  }
};

const std::string waits = "still waiting for the pods of ";

}  // namespace

TEST_CASE("mlk stop suspends every one of many runs even if their processes do not end in time") {
  constexpr int more_than_at_once = 17;
  RunsToStop cluster(more_than_at_once);
  const Error error = cluster.stop(0s);
  CHECK(error.code() == ExitCode::timed_out);
  CHECK(error.what() == waits + "r-0 to end");
  CHECK(cluster.suspended() == more_than_at_once);
  REQUIRE(cluster.warnings.size() == more_than_at_once - 1);  // one for each of the other runs
  CHECK(cluster.warnings.back() == waits + "r-16 to end");
}

TEST_CASE("if mlk stop is interrupted, it names the runs that it has not stopped") {
  RunsToStop cluster(18);
  cluster.interrupted = [&] { return cluster.suspended() == 16; };
  const Error error = cluster.stop(0s);
  CHECK(error.code() == ExitCode::interrupted);
  CHECK(cluster.warnings == std::vector<std::string>{"not stopped: r-16, r-17"});
  CHECK(cluster.suspended() == 16);
}

TEST_CASE("mlk stop records a run whose processes have ended, even if another run goes on") {
  RunsToStop cluster(2);
  cluster.end_pod("r-1");
  const Error error = cluster.stop(3s);
  CHECK(error.code() == ExitCode::timed_out);
  CHECK(error.what() == waits + "r-0 to end");
  CHECK(cluster.suspended() == 2);
  CHECK_FALSE(cluster.is_recorded("r-0"));
  CHECK(cluster.is_recorded("r-1"));
}

TEST_CASE("mlk stop suspends and records the other runs if one run is deleted meanwhile") {
  RunsToStop cluster(2);
  cluster.end_pod("r-1");
  cluster.before([&](const local::Request& request) -> std::optional<local::Answer> {
    // The first request about r-0: the stop begins to watch it.
    if (request.parameter("fieldSelector") == "metadata.name=r-0" && cluster.has("configmaps", "r-0"))
      cluster.store.remove("configmaps", "default", "r-0");
    return std::nullopt;
  });
  const Error error = cluster.stop(3s);
  CHECK(error.code() == ExitCode::not_found);
  CHECK(error.what() == std::string("there is no run 'r-0' in namespace 'default'"));
  CHECK(cluster.suspended() == 1);
  CHECK(cluster.is_recorded("r-1"));
  CHECK(cluster.warnings.empty());
}

TEST_CASE("rethrow() throws the first of several errors") {
  std::vector<std::string> warnings;
  const ChangeHooks hooks{.note = {},
                          .warn = [&](const std::string& text) { warnings.push_back(text); },
                          .interrupted = {},
                          .command = {}};
  FirstError errors(hooks);
  const auto fail = [](ExitCode code, const char* what) {
    return [=] { throw Error(code, what, "a hint"); };
  };
  CHECK(errors.attempt([] {}));
  CHECK_NOTHROW(errors.rethrow());
  CHECK_FALSE(errors.attempt(fail(ExitCode::failure, "one")));
  CHECK(warnings.empty());
  CHECK_FALSE(errors.attempt(fail(ExitCode::not_found, "two")));
  CHECK(warnings == std::vector<std::string>{"two"});
  CHECK_THROWS_WITH_AS(errors.rethrow(), "one", Error);
  CHECK_THROWS_WITH_AS(errors.attempt(fail(ExitCode::interrupted, "three")), "three", Error);
  CHECK(warnings == std::vector<std::string>{"two", "one"});  // rethrow() is not called after an interruption
}

}  // namespace mlk
