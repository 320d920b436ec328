// What deleting a pod and applying an object come to, by the values of both.
#include <doctest/doctest.h>

#include "tests/unit/local/api_cluster.h"

namespace mlk::local {
namespace {

using namespace samples;

// The grace that a pod is given when it is deleted; nothing when it is gone at once.
std::optional<long> grace_of(const json& spec, const std::string& phase, const json& options = nullptr) {
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

TEST_CASE("a pod that runs gets the grace that is asked for, else its own, else 30 s") {
  const json on_node = {{"nodeName", "local"}};
  const json patient = {{"nodeName", "local"}, {"terminationGracePeriodSeconds", 70}};
  CHECK(grace_of(on_node, "Running") == 30);
  CHECK(grace_of(patient, "Running") == 70);
  CHECK(grace_of(patient, "Running", {{"gracePeriodSeconds", 4}}) == 4);
  CHECK(grace_of(patient, "Running", {{"gracePeriodSeconds", nullptr}}) == 70);
  CHECK(grace_of(patient, "Pending") == 70);
}

TEST_CASE("a pod that has ended, that no node has, or that gets no grace is gone at once") {
  const json on_node = {{"nodeName", "local"}};
  for (const char* phase : {"Succeeded", "Failed"}) CHECK_FALSE(grace_of(on_node, phase));
  CHECK_FALSE(grace_of(json::object(), "Pending"));
  CHECK_FALSE(grace_of(on_node, "Running", {{"gracePeriodSeconds", 0}}));
}

TEST_CASE("an applied object that does not exist yet gets the name in its path") {
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
