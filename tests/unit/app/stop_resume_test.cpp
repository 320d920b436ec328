// Tests mlk stop and mlk resume against a cluster whose Jobs other programs change.

#include <optional>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "tests/unit/app/cluster_with_run.h"
#include "tests/unit/fake_cluster.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("app/stop_resume");

namespace mlk {
namespace {

using nlohmann::json;
using test::ClusterWithRun;
using test::config_maps_path;
using test::jobs_path;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST_CASE("mlk stop --timeout 0 stops the run without waiting") {
  ClusterWithRun cluster;
  const auto [code, said] = cluster.mlk({"stop", "x", "--timeout", "0"});
  CHECK(code == 124);
  CHECK(contains(said, "the run is being stopped all the same"));
  CHECK(cluster.job().at("spec").at("suspend") == true);
  CHECK(cluster.mark().is_string());
}

TEST_CASE("mlk stop leaves no stop mark on the run if the user may not change the Jobs") {
  ClusterWithRun cluster;
  cluster.before([](const local::Request& request) -> std::optional<local::Answer> {
    if (request.method != "PATCH" || !contains(request.path, "/jobs/")) return std::nullopt;
    return test::refusal(403, "Forbidden", "jobs.batch is forbidden");
  });
  const auto [code, said] = cluster.mlk({"stop", "x"});
  CHECK(code == 4);
  CHECK(contains(said, "jobs.batch is forbidden"));
  CHECK(cluster.mark().is_null());
}

TEST_CASE("mlk stop fails if the run is resumed during the wait") {
  ClusterWithRun cluster;
  std::thread other([&] {
    eventually([&] { return cluster.job().at("spec").value("suspend", false); });
    cluster.ask("PATCH", jobs_path + "/x-abcde-worker", {{"spec", {{"suspend", false}}}},
                "application/merge-patch+json");
  });
  const auto [code, said] = cluster.mlk({"stop", "x", "--timeout", "10s"});
  other.join();
  CHECK(code == 1);
  CHECK(contains(said, "run x-abcde was resumed before its processes had ended"));
  CHECK(json::parse(cluster.mlk({"status", "x", "-o", "json"}).second).at("phase") == "Running");
  CHECK(cluster.mlk({"resume", "x"}).first == 0);  // the Jobs that nobody has resumed go on, too
  CHECK(cluster.mark().is_null());
}

TEST_CASE("if one of several runs has ended, mlk resume resumes the other runs and then fails") {
  ClusterWithRun cluster;
  CHECK(cluster.mlk({"stop", "x", "--timeout", "0"}).first == 124);
  cluster.ask("POST", config_maps_path, test::owner_of("y-fghij", "y"));
  cluster.ask("POST", jobs_path, test::job_of("y-fghij"));
  cluster.store.modify("jobs", "default", "y-fghij-worker", [](json& job) {
    job["status"]["conditions"] = {{{"type", "Complete"}, {"status", "True"}}};
  });
  const auto [code, said] = cluster.mlk({"resume", "y", "x"});
  CHECK(code == 1);
  CHECK(contains(said, "mlk: error: run y-fghij has ended: Succeeded"));
  CHECK(cluster.job().at("spec").at("suspend") == false);
  CHECK(cluster.mark().is_null());
}

}  // namespace
}  // namespace mlk
