// Garbage collection, step by step: the whole metadata of objects that wait for their deletion.
#include <doctest/doctest.h>

#include "cli/local/garbage.h"
#include "tests/unit/local/api_cluster.h"

TEST_SUITE_BEGIN("local/garbage_steps");

namespace mlk::local {
namespace {

using namespace samples;
using namespace nlohmann::literals;
using std::chrono::seconds;

json thing_named(const std::string& name, const json& metadata = json::object()) {
  json thing = {{"metadata", {{"name", name}, {"namespace", "ns"}, {"uid", "u-" + name}}}};
  thing["metadata"].merge_patch(metadata);
  return thing;
}

json reference_to(const std::string& owner, bool blocks) {
  return {{"uid", "u-" + owner}, {"name", owner}, {"blockOwnerDeletion", blocks}};
}

json waiting(const json& finalizers) {
  return {{"deletionTimestamp", "2026-11-21T11:00:00Z"}, {"finalizers", finalizers}};
}

json metadata_in(const Store& store, const char* plural, const std::string& name_space,
                 const std::string& name) {
  const Object object = store.find(plural, name_space, name);
  if (!object) return nullptr;
  json metadata = object->at("metadata");
  metadata.erase("resourceVersion");
  return metadata;
}

TEST_CASE("an owner loses the finalizer `foregroundDeletion` when no dependent blocks the owner's deletion") {
  const Folder folder;
  Store store(folder.path());
  store.create("configmaps", thing_named("a", waiting({"x.io/f", "foregroundDeletion", "x.io/g"})));
  store.create("configmaps", thing_named("b", waiting({"foregroundDeletion"})));
  store.create("configmaps", thing_named("c", {{"finalizers", {"foregroundDeletion"}}}));
  store.create("configmaps", thing_named("d", waiting({"x.io/f"})));
  store.create(
      "secrets",
      thing_named("of-b", {{"finalizers", {"x.io/f"}},
                           {"ownerReferences", {reference_to("b", true), reference_to("gone", true)}}}));
  collect_garbage(store, noon);
  CHECK(metadata_in(store, "configmaps", "ns", "a") ==
        R"({"name": "a", "namespace": "ns", "uid": "u-a", "deletionTimestamp": "2026-11-21T11:00:00Z",
            "finalizers": ["x.io/f", "x.io/g"]})"_json);
  CHECK(metadata_in(store, "configmaps", "ns", "b").at("finalizers") == json{"foregroundDeletion"});
  CHECK(metadata_in(store, "configmaps", "ns", "c") ==
        R"({"name": "c", "namespace": "ns", "uid": "u-c"})"_json);
  CHECK(metadata_in(store, "configmaps", "ns", "d").at("finalizers") == json{"x.io/f"});
  json of_b = metadata_in(store, "secrets", "ns", "of-b");
  CHECK(of_b.at("deletionTimestamp") == "2026-11-21T12:00:00Z");
  CHECK(of_b.at("deletionGracePeriodSeconds") == 0);
  // The collector marks the object only once.
  collect_garbage(store, noon + seconds(9));
  CHECK(metadata_in(store, "secrets", "ns", "of-b") == of_b);
  store.modify("secrets", "ns", "of-b", [](json& object) { object["metadata"].erase("finalizers"); });
  collect_garbage(store, noon + seconds(9));
  CHECK(metadata_in(store, "configmaps", "ns", "b").is_null());
}

TEST_CASE("an owner in foreground deletion does not wait for a dependent without blockOwnerDeletion") {
  const Folder folder;
  Store store(folder.path());
  store.create("configmaps", thing_named("a", waiting({"foregroundDeletion"})));
  json loose = reference_to("a", true);
  loose.erase("blockOwnerDeletion");
  store.create("secrets",
               thing_named("s", {{"finalizers", {"x.io/f"}}, {"ownerReferences", json::array({loose})}}));
  collect_garbage(store, noon);
  CHECK(metadata_in(store, "configmaps", "ns", "a").is_null());
  CHECK(metadata_in(store, "secrets", "ns", "s").contains("deletionTimestamp"));
}

TEST_CASE(
    "an orphan pod gets the grace period of its spec or else 30 s, but 0 if it has no node or has ended") {
  const Folder folder;
  Store store(folder.path());
  const json lost = {{"ownerReferences", json::array({reference_to("gone", true)})},
                     {"finalizers", {"x.io/f"}}};
  const auto grace = [&](const std::string& name, const json& spec, const json& status) {
    json pod = thing_named(name, lost);
    pod["spec"] = spec;
    pod["status"] = status;
    store.create("pods", pod);
    collect_garbage(store, noon);
    const json metadata = metadata_in(store, "pods", "ns", name);
    return metadata.at("deletionTimestamp").get<std::string>() + " " +
           metadata.at("deletionGracePeriodSeconds").dump();
  };
  CHECK(grace("a", {{"nodeName", "local"}}, {{"phase", "Running"}}) == "2026-11-21T12:00:30Z 30");
  CHECK(grace("f", {{"nodeName", "local"}, {"terminationGracePeriodSeconds", 5}}, {{"phase", "Pending"}}) ==
        "2026-11-21T12:00:05Z 5");
  CHECK(grace("b", {{"nodeName", "local"}}, json::object()) == "2026-11-21T12:00:30Z 30");
  CHECK(grace("c", {{"terminationGracePeriodSeconds", 5}}, {{"phase", "Pending"}}) ==
        "2026-11-21T12:00:00Z 0");
  CHECK(grace("d", {{"nodeName", "local"}}, {{"phase", "Succeeded"}}) == "2026-11-21T12:00:00Z 0");
  CHECK(grace("e", {{"nodeName", "local"}}, {{"phase", "Failed"}}) == "2026-11-21T12:00:00Z 0");
}

TEST_CASE("the collector keeps a ServiceAccount whose owner does not exist") {
  const Folder folder;
  Store store(folder.path());
  store.create("serviceaccounts",
               thing_named("default", {{"ownerReferences", json::array({reference_to("gone", true)})}}));
  collect_garbage(store, noon);
  CHECK(store.find("serviceaccounts", "ns", "default"));
}

TEST_CASE("the collector keeps an object without an owner, and one whose owner is in another namespace") {
  const Folder folder;
  Store store(folder.path());
  store.create("jobs", {{"metadata", {{"name", "j"}, {"namespace", "other"}, {"uid", "u-j"}}}});
  store.create("secrets", thing_named("s", {{"ownerReferences", json::array({reference_to("j", false)})}}));
  store.create("secrets", thing_named("t", {{"ownerReferences", json::array()}}));
  const std::uint64_t before = store.revision();
  collect_garbage(store, noon);
  CHECK(store.revision() == before);
  CHECK(store.list("secrets").size() == 2);
}

TEST_CASE("a deleted namespace loses its objects, then its service account, and is removed last") {
  Cluster cluster;
  Store& store = cluster.store;
  for (const char* name : {"team", "other"})
    cluster.send("POST", "/api/v1/namespaces", {{"metadata", {{"name", name}}}});
  for (const char* name : {"team", "other"})
    cluster.send("POST", std::string("/api/v1/namespaces/") + name + "/configmaps",
                 map_named("a", {{"metadata", {{"finalizers", {"x.io/f"}}}}}));
  cluster.send("POST", "/api/v1/namespaces/team/configmaps", map_named("b"));
  cluster.send("DELETE", "/api/v1/namespaces/team");
  collect_garbage(store, noon);
  CHECK(metadata_in(store, "configmaps", "team", "a").at("deletionTimestamp") == "2026-11-21T12:00:00Z");
  CHECK_FALSE(store.find("configmaps", "team", "b"));
  CHECK(store.find("serviceaccounts", "team", "default"));
  collect_garbage(store, noon);
  CHECK(store.find("namespaces", "", "team"));
  store.modify("configmaps", "team", "a", [](json& object) { object["metadata"].erase("finalizers"); });
  collect_garbage(store, noon);
  CHECK_FALSE(store.find("serviceaccounts", "team", "default"));
  CHECK_FALSE(store.find("namespaces", "", "team"));
  CHECK_FALSE(metadata_in(store, "configmaps", "other", "a").contains("deletionTimestamp"));
  CHECK(store.find("namespaces", "", "other"));
  CHECK(store.find("serviceaccounts", "other", "default"));
}

TEST_CASE("a deleted namespace stays if it has a finalizer of another program") {
  Cluster cluster;
  cluster.send("POST", "/api/v1/namespaces", {{"metadata", {{"name", "team"}}}});
  cluster.send("DELETE", "/api/v1/namespaces/team");
  cluster.store.modify("namespaces", "", "team",
                       [](json& object) { object["metadata"]["finalizers"].push_back("x.io/f"); });
  collect_garbage(cluster.store, noon);
  CHECK(metadata_in(cluster.store, "namespaces", "", "team").at("finalizers") == json{"x.io/f"});
}

TEST_CASE("the collector empties a namespace only if it has a deletion time and the finalizer `kubernetes`") {
  Cluster cluster;
  for (const char* name : {"team", "other"}) {
    cluster.send("POST", "/api/v1/namespaces", {{"metadata", {{"name", name}}}});
    cluster.send("POST", std::string("/api/v1/namespaces/") + name + "/configmaps", map_named("a"));
  }
  cluster.store.modify("namespaces", "", "team",
                       [](json& object) { object["metadata"]["finalizers"] = {"kubernetes"}; });
  cluster.store.modify("namespaces", "", "other", [](json& object) {
    object["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z";
    object["metadata"]["finalizers"] = {"x.io/f"};
  });
  collect_garbage(cluster.store, noon);
  CHECK(cluster.store.find("configmaps", "team", "a"));
  CHECK(cluster.store.find("configmaps", "other", "a"));
}

}  // namespace
}  // namespace mlk::local
