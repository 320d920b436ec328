// Tests which run or sweep a name means for delete, and for which objects a deletion waits.
#include "cli/run/change/delete.h"

#include <chrono>
#include <optional>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/util/error.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("run/change/delete");

namespace mlk {
namespace {

using nlohmann::json;

struct RunsToDelete : test::FakeCluster {
  kube::Client client{config()};

  // Adds the owner of a run of the experiment "x"; with `sweep`, of a trial or of the sweep itself.
  void add(const std::string& run, const std::string& sweep = "") {
    json owner = test::owner_of(run, "x");
    if (!sweep.empty()) owner["metadata"]["labels"]["mlk.dev/sweep"] = sweep;
    ask("POST", test::config_maps_path, owner);
  }
  // The name of the found owner, "none", or the error.
  std::string found(const std::string& name) {
    try {
      const std::optional<json> owner = find_owner_to_delete(client, name);
      return owner ? kube::name_of(*owner) : "none";
    } catch (const Error& error) {
      return error.what();
    }
  }
};

}  // namespace

TEST_CASE("mlk delete accepts the name of an experiment that has one run or sweep (trials do not count)") {
  RunsToDelete cluster;
  cluster.add("x-aaaaa", "x-aaaaa");
  for (const char* trial : {"x-bbbbb", "x-ccccc"}) cluster.add(trial, "x-aaaaa");
  json files = test::owner_of("x-aaaaa", "x");
  files["metadata"]["name"] = "x-aaaaa-files";  // another ConfigMap of the sweep
  cluster.ask("POST", test::config_maps_path, files);
  CHECK(cluster.found("x") == "x-aaaaa");
  CHECK(cluster.found("x-bbbbb") == "x-bbbbb");
  CHECK(cluster.found("y") == "none");
  cluster.add("x-ddddd");
  CHECK(cluster.found("x") == "'x' has 2 runs: x-aaaaa, x-ddddd");
  CHECK(cluster.found("x-aaaaa") == "x-aaaaa");
}

TEST_CASE("a deletion waits for the Job of the deleted run, and not for the Job of a later run") {
  for (const bool is_later : {false, true}) {
    CAPTURE(is_later);
    RunsToDelete cluster;
    cluster.add("x-aaaaa");
    const std::optional<json> owner = find_owner_to_delete(cluster.client, "x-aaaaa");
    REQUIRE(owner);
    json reference = {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"name", "x-aaaaa"}};
    reference["uid"] = is_later ? "uid-of-a-later-run" : kube::uid_of(*owner);
    json job = test::job_of("x-aaaaa");
    job["metadata"]["ownerReferences"] = json::array({reference});
    cluster.ask("POST", test::jobs_path, job);
    REQUIRE(cluster.has("jobs", "x-aaaaa-worker"));
    Deletion deletion(cluster.client, *owner);
    deletion.begin(Deletion::IsAwaited::yes);
    std::string left;
    try {
      deletion.wait(std::chrono::steady_clock::time_point::min(),
                    {.note = {}, .warn = {}, .interrupted = [] { return false; }, .command = {}});
    } catch (const Error& error) {
      left = error.what();
    }
    CHECK(left == (is_later ? "" : "x-aaaaa is still being deleted: job/x-aaaaa-worker is left"));
  }
}

}  // namespace mlk
