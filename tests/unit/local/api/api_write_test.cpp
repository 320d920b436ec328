// The results of deleting a pod and of applying an object, for different values.
#include <doctest/doctest.h>

#include "tests/unit/local/api_cluster.h"

TEST_SUITE_BEGIN("local/api/api_write");

namespace mlk::local {
namespace {

using namespace samples;

// The grace period of a deleted pod; nullopt if the pod is gone at once.
std::optional<long> grace_of(const json& spec, const json& phase, const json& options = nullptr) {
  Cluster cluster;
  json pod = pod_without_job();
  pod["spec"].merge_patch(spec);
  REQUIRE(cluster.code("POST", pods, pod) == 201);
  cluster.store.modify("pods", "default", "p", [&](json& stored) { stored["status"]["phase"] = phase; });
  cluster.send("DELETE", pods + "/p", options);
  const auto left = cluster.store.find("pods", "default", "p");
  if (!left) return std::nullopt;
  return left->at("metadata").at("deletionGracePeriodSeconds").get<long>();
}

TEST_CASE("a deleted pod on a node gets the grace period of the request, or else its own, or else 30 s") {
  const json on_node = {{"nodeName", "local"}};
  const json patient = {{"nodeName", "local"}, {"terminationGracePeriodSeconds", 70}};
  CHECK(grace_of(on_node, "Running") == 30);
  CHECK(grace_of(patient, "Running") == 70);
  CHECK(grace_of(patient, "Running", {{"gracePeriodSeconds", 4}}) == 4);
  CHECK(grace_of(patient, "Running", {{"gracePeriodSeconds", nullptr}}) == 70);
  CHECK(grace_of(patient, "Pending") == 70);
  CHECK(grace_of(on_node, 5) == 30);  // a client may write any phase
}

TEST_CASE("a pod is deleted at once if it has ended, has no node, or has the grace period 0") {
  const json on_node = {{"nodeName", "local"}};
  for (const char* phase : {"Succeeded", "Failed"}) CHECK_FALSE(grace_of(on_node, phase));
  CHECK_FALSE(grace_of(json::object(), "Pending"));
  CHECK_FALSE(grace_of(on_node, "Running", {{"gracePeriodSeconds", 0}}));
}

TEST_CASE("an apply creates an object with the name in the path if no such object exists") {
  Cluster cluster;
  json nameless = map_named("x", {{"data", {{"k", "1"}}}});
  nameless["metadata"].erase("name");
  CHECK(cluster.code("PATCH", maps + "/new?fieldManager=me", nameless, "application/apply-patch+yaml") ==
        201);
  CHECK(cluster.ask("GET", maps + "/new").at("data").at("k") == "1");
  CHECK(cluster.code("PATCH", maps + "/other", nameless, "application/apply-patch+yaml") == 422);
}

}  // namespace
}  // namespace mlk::local
