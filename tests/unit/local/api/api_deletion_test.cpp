// Requests that delete objects, and what is deleted with these objects.
#include <doctest/doctest.h>

#include "cli/local/api/api.h"
#include "cli/local/garbage.h"
#include "cli/local/jobs/jobs.h"
#include "tests/unit/local/api_cluster.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/api/api_deletion");

using namespace mlk::local;
using namespace mlk::local::samples;

namespace {

// Creates the ConfigMap owner and its dependent, the ConfigMap child. `reference`: further fields of the
// owner reference; `metadata`: further fields of the metadata of child.
void add_owner_and_child(Cluster& cluster, const json& reference = json::object(),
                         json metadata = json::object()) {
  const json owner = cluster.ask("POST", maps, map_named("owner"));
  json to_owner = {{"apiVersion", "v1"},
                   {"kind", "ConfigMap"},
                   {"name", "owner"},
                   {"uid", owner.at("metadata").at("uid")}};
  to_owner.update(reference);
  metadata["ownerReferences"] = json::array({to_owner});
  cluster.send("POST", maps, map_named("child", {{"metadata", metadata}}));
}

}  // namespace

TEST_CASE("a deletion checks its preconditions, and also deletes the dependents of the object") {
  Cluster cluster;
  add_owner_and_child(cluster);
  CHECK(cluster.code("DELETE", maps + "/owner", {{"preconditions", {{"uid", "other"}}}}) == 409);
  collect_garbage(cluster.store, noon);
  CHECK(cluster.code("GET", maps + "/child") == 200);
  CHECK(cluster.code("DELETE", maps + "/owner", {{"propagationPolicy", "Background"}}) == 200);
  CHECK(cluster.code("GET", maps + "/owner") == 404);
  collect_garbage(cluster.store, noon);
  CHECK(cluster.code("GET", maps + "/child") == 404);
}

TEST_CASE(
    "with `Orphan`, the dependents of a deleted owner stay; with `Foreground`, they are deleted first") {
  Cluster cluster;
  for (const std::string policy : {"Orphan", "Foreground"}) {
    add_owner_and_child(cluster, {{"blockOwnerDeletion", true}});
    cluster.send("DELETE", maps + "/owner", {{"propagationPolicy", policy}});
    CHECK(cluster.code("GET", maps + "/owner") == (policy == "Orphan" ? 404 : 200));
    for (int i = 0; i < 3; ++i) collect_garbage(cluster.store, noon);
    CHECK(cluster.code("GET", maps + "/owner") == 404);
    CHECK(cluster.code("GET", maps + "/child") == (policy == "Orphan" ? 200 : 404));
    cluster.send("DELETE", maps + "/child");
  }
}

TEST_CASE("an orphaning deletion marks the owner first, and then removes the references to the owner") {
  Cluster cluster;
  add_owner_and_child(cluster);
  std::uint64_t seen = cluster.store.revision();
  cluster.send("DELETE", maps + "/owner", {{"propagationPolicy", "Orphan"}});
  std::vector<std::string> steps;
  for (const Change& change : cluster.store.changes_after(seen, "configmaps", {})) {
    const json& metadata = change.object->at("metadata");
    const bool gone = change.type == Change::Type::deleted, going = metadata.contains("deletionTimestamp");
    steps.push_back(metadata.at("name").get<std::string>() + (gone ? " is gone" : going ? " is going" : ""));
  }
  CHECK(steps == std::vector<std::string>{"owner is going", "child", "owner is gone"});
}

TEST_CASE("a foreground deletion does not wait for a dependent without blockOwnerDeletion") {
  for (const bool blocks : {true, false}) {
    Cluster cluster;
    add_owner_and_child(cluster, {{"blockOwnerDeletion", blocks}}, {{"finalizers", {"example.com/hold"}}});
    cluster.send("DELETE", maps + "/owner", {{"propagationPolicy", "Foreground"}});
    for (int i = 0; i < 3; ++i) collect_garbage(cluster.store, noon);
    CHECK(cluster.code("GET", maps + "/owner") == (blocks ? 200 : 404));
    CHECK(cluster.code("GET", maps + "/child") == 200);
  }
}

TEST_CASE("DELETE of a collection deletes the objects that a label selector or a field selector selects") {
  Cluster cluster;
  cluster.send("POST", maps, map_named("a", {{"metadata", {{"labels", {{"l", "1"}}}}}}));
  cluster.send("POST", maps, map_named("b"));
  CHECK(names(cluster.ask("DELETE", maps + "?labelSelector=l=1")) == std::vector<std::string>{"a"});
  CHECK(names(cluster.ask("GET", maps)) == std::vector<std::string>{"b"});
  cluster.send("POST", maps, map_named("c"));
  CHECK(names(cluster.ask("DELETE", maps + "?fieldSelector=metadata.name=c")) ==
        std::vector<std::string>{"c"});
  CHECK(names(cluster.ask("GET", maps)) == std::vector<std::string>{"b"});
}

TEST_CASE("a namespace that is being deleted takes no new objects, and all of its objects are deleted") {
  Cluster cluster;
  CHECK(cluster.code("POST", "/api/v1/namespaces",
                     {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", "team"}}}}) == 201);
  CHECK(cluster.code("POST", "/api/v1/namespaces/team/configmaps", map_named("a")) == 201);
  CHECK(cluster.code("GET", "/api/v1/namespaces/team/serviceaccounts/default") == 200);
  CHECK(cluster.code("DELETE", "/api/v1/namespaces/team") == 200);
  CHECK(cluster.code("POST", "/api/v1/namespaces/team/configmaps", map_named("b")) == 403);
  for (int i = 0; i < 3; ++i) collect_garbage(cluster.store, noon);
  CHECK(cluster.code("GET", "/api/v1/namespaces/team") == 404);
  CHECK(cluster.code("GET", "/api/v1/namespaces/team/configmaps/a") == 404);
}

TEST_CASE("a Job creates its pods, and deleting the Job deletes the pods") {
  Cluster cluster;
  cluster.send("POST", jobs, job_named("j"));
  step_jobs(cluster.store, noon);
  const json made = cluster.ask("GET", pods);
  REQUIRE(made.at("items").size() == 2);
  CHECK(made.at("items").at(0).at("spec").at("hostname") == "j-0");
  CHECK(cluster.ask("GET", jobs + "/j").at("status").at("active") == 2);
  step_jobs(cluster.store, noon);
  CHECK(cluster.ask("GET", pods).at("items").size() == 2);
  cluster.send("DELETE", jobs + "/j", {{"propagationPolicy", "Background"}});
  for (int i = 0; i < 3; ++i) {
    collect_garbage(cluster.store, noon);
    step_jobs(cluster.store, noon);
  }
  CHECK(cluster.ask("GET", pods).at("items").empty());
}

TEST_CASE("a second deletion can shorten the grace period of a pod, but cannot lengthen it") {
  Cluster cluster;
  const json pod = {{"apiVersion", "v1"},
                    {"kind", "Pod"},
                    {"metadata", {{"name", "p"}}},
                    {"spec",
                     {{"restartPolicy", "Never"},
                      {"nodeName", "local"},
                      {"containers", {{{"name", "main"}, {"image", "i"}, {"command", {"true"}}}}}}}};
  cluster.send("POST", pods, pod);
  const auto grace_after = [&](int asked) {
    return cluster.ask("DELETE", pods + "/p", {{"gracePeriodSeconds", asked}})
        .at("metadata")
        .at("deletionGracePeriodSeconds")
        .get<int>();
  };
  CHECK(grace_after(20) == 20);
  CHECK(grace_after(60) == 20);
  CHECK(grace_after(5) == 5);
  CHECK(cluster.ask("GET", pods + "/p").at("metadata").at("deletionTimestamp") == "2026-11-21T12:00:05Z");
}
