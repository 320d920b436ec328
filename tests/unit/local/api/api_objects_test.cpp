// The complete answers to requests that create, change, list and delete objects.
#include <doctest/doctest.h>

#include "tests/unit/local/api_cluster.h"

TEST_SUITE_BEGIN("local/api/api_objects");

namespace mlk::local {
namespace {

using namespace samples;
using namespace nlohmann::literals;

const std::string merge_patch = "application/merge-patch+json";
const std::string teams = "/api/v1/namespaces";

json labelled(const std::string& value) { return {{"metadata", {{"labels", {{"l", value}}}}}}; }

// The object without its uid, which differs each time, and without its resourceVersion.
json without_identity(json object) {
  CHECK(object["metadata"]["uid"].get<std::string>().size() == 36);
  CHECK(std::stoull(object["metadata"]["resourceVersion"].get<std::string>()) > 0);
  object["metadata"].erase("uid");
  object["metadata"].erase("resourceVersion");
  return object;
}

json owner_of(const json& object, bool blocks = false) {
  json owner = {{"apiVersion", object.at("apiVersion")},
                {"kind", object.at("kind")},
                {"name", object.at("metadata").at("name")},
                {"uid", object.at("metadata").at("uid")}};
  if (blocks) owner["blockOwnerDeletion"] = true;
  return owner;
}

json gone_answer(const json& object, const std::string& group, const std::string& plural) {
  return {{"kind", "Status"},
          {"apiVersion", "v1"},
          {"metadata", json::object()},
          {"status", "Success"},
          {"details",
           {{"name", object.at("metadata").at("name")},
            {"group", group},
            {"kind", plural},
            {"uid", object.at("metadata").at("uid")}}}};
}

// Sends the request to the same cluster ten seconds later.
Answer send_later(Cluster& cluster, const std::string& method, const std::string& path, const json& body) {
  Api later{cluster.store, cluster.logs, [] { return noon + std::chrono::seconds(10); }};
  Request request;
  request.method = method;
  request.path = path;
  request.body = body.dump();
  return later.handle(request);
}

TEST_CASE("a new object gets the initial status of its kind, and the status that a client sends is ignored") {
  Cluster cluster;
  const auto made = [&](const std::string& path, json object) {
    object["status"] = {{"phase", "Odd"}};
    const Answer answer = cluster.send("POST", path, object);
    CHECK(answer.status == 201);
    CHECK(answer.content_type == "application/json");
    const json whole = json::parse(answer.body);
    CHECK(cluster.ask("GET", path + "/" + whole.at("metadata").at("name").get<std::string>()) == whole);
    return without_identity(whole);
  };
  const json pod = made(pods, pod_without_job());
  CHECK(pod.at("status") == R"({"phase": "Pending", "qosClass": "BestEffort"})"_json);
  CHECK(pod.at("metadata") == R"({"name": "p", "namespace": "default", "generation": 1,
                                  "creationTimestamp": "2026-11-21T12:00:00Z"})"_json);
  CHECK(made(jobs, job_named("j")).at("status") == json::object());
  CHECK(made(teams, {{"metadata", {{"name", "team"}}}}) ==
        R"({"apiVersion": "v1", "kind": "Namespace", "status": {"phase": "Active"},
            "metadata": {"name": "team", "creationTimestamp": "2026-11-21T12:00:00Z",
                         "labels": {"kubernetes.io/metadata.name": "team"}}})"_json);
  CHECK(without_identity(cluster.ask("GET", teams + "/team/serviceaccounts/default")) ==
        R"({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "team",
                         "creationTimestamp": "2026-11-21T12:00:00Z"}})"_json);
  CHECK(made("/api/v1/namespaces/default/services",
             {{"metadata", {{"name", "s"}}}, {"spec", {{"selector", {{"a", "b"}}}}}}) ==
        R"({"apiVersion": "v1", "kind": "Service", "status": {"loadBalancer": {}},
            "metadata": {"name": "s", "namespace": "default", "creationTimestamp": "2026-11-21T12:00:00Z"},
            "spec": {"selector": {"a": "b"}, "type": "ClusterIP", "sessionAffinity": "None",
                     "clusterIP": "None", "clusterIPs": ["None"]}})"_json);
  CHECK(names(cluster.ask("GET", "/api/v1/serviceaccounts")) ==
        std::vector<std::string>{"default", "default"});
}

TEST_CASE(
    "fieldValidation=Strict refuses unknown fields, Ignore ignores them, and Warn (the default) warns of "
    "each") {
  Cluster cluster;
  const json typo = map_named("a", {{"dat", 1}, {"x", 2}});
  const std::string both = "unknown field \"dat\", unknown field \"x\"";
  const struct {
    const char* method;
    std::string path;
    json body;
    std::string type;
  } table[] = {{"POST", maps, typo, "application/json"},
               {"PUT", maps + "/a", typo, "application/json"},
               {"PATCH", maps + "/a", {{"dat", 1}, {"x", 2}}, merge_patch}};
  for (const auto& row : table) {
    CAPTURE(row.method);
    const auto sent = [&](const std::string& query) {
      return cluster.send(row.method, row.path + query, row.body, row.type);
    };
    const Answer strict = sent("?fieldValidation=Strict");
    CHECK(strict.status == 400);
    CHECK(strict.warning.empty());
    CHECK(json::parse(strict.body).at("message") ==
          "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: " + both);
    CHECK(sent("?dryRun=All&fieldValidation=Warn").warning == both);
    CHECK(sent("?dryRun=All&fieldValidation=Ignore").warning.empty());
    const Answer plain = sent("");
    CHECK(plain.status < 300);
    CHECK(plain.warning == both);
    const json stored = cluster.ask("GET", maps + "/a");
    CHECK_FALSE(stored.contains("dat"));
    CHECK_FALSE(stored.contains("x"));
  }
  json applied = map_named("b", {{"dat", 1}});
  CHECK(cluster.send("PATCH", maps + "/b?fieldManager=m", applied, "application/apply-patch+yaml").warning ==
        "unknown field \"dat\"");
}

TEST_CASE("a request with dryRun is checked and answered, but changes nothing") {
  Cluster cluster;
  const json a = cluster.ask("POST", maps, map_named("a"));
  const std::uint64_t before = cluster.store.revision();
  const json made = cluster.ask("POST", maps + "?dryRun=All", map_named("b"));
  CHECK(made.at("metadata").at("name") == "b");
  CHECK_FALSE(made.at("metadata").contains("resourceVersion"));
  CHECK(cluster.ask("POST", maps + "?dryRun=All", map_named("a")).at("message") ==
        "configmaps \"a\" already exists");
  CHECK(cluster.code("POST", teams + "?dryRun=All", {{"metadata", {{"name", "team"}}}}) == 201);
  json changed = a;
  changed["data"]["k"] = "w";
  CHECK(cluster.ask("PUT", maps + "/a?dryRun=All", changed) == changed);
  CHECK(cluster.code("PUT", maps + "/none?dryRun=All", map_named("none")) == 404);
  CHECK(cluster.ask("DELETE", maps + "/a?dryRun=All") == a);
  CHECK(cluster.ask("DELETE", maps + "/a", {{"dryRun", {"All"}}}) == a);
  CHECK(cluster.code("DELETE", maps + "/a?dryRun=All", {{"preconditions", {{"uid", "x"}}}}) == 409);
  CHECK(names(cluster.ask("DELETE", maps + "?dryRun=All")) == std::vector<std::string>{"a"});
  CHECK(names(cluster.ask("DELETE", maps, {{"dryRun", {"All"}}})) == std::vector<std::string>{"a"});
  CHECK(cluster.store.revision() == before);
}

TEST_CASE("the answer to DELETE names the object, its kind and its group if the object is gone at once") {
  Cluster cluster;
  const json map = cluster.ask("POST", maps, map_named("a"));
  const json job = cluster.ask("POST", jobs, job_named("j"));
  const json pod = cluster.ask("POST", pods, pod_without_job());
  for (const auto& [path, expected] : {std::pair(maps + "/a", gone_answer(map, "", "configmaps")),
                                       {jobs + "/j", gone_answer(job, "batch", "jobs")},
                                       {pods + "/p", gone_answer(pod, "", "pods")}}) {
    const Answer answer = cluster.send("DELETE", path);
    CHECK(answer.status == 200);
    CHECK(answer.content_type == "application/json");
    CHECK(json::parse(answer.body) == expected);
    CHECK(cluster.ask("DELETE", path).at("code") == 404);
  }
}

TEST_CASE(
    "a second DELETE can set the deletion time of an object to an earlier time, but not to a later one") {
  Cluster cluster;
  const json held = cluster.ask("POST", maps, map_named("a", {{"metadata", {{"finalizers", {"x.io/f"}}}}}));
  json going = held;
  going["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z";
  going["metadata"]["deletionGracePeriodSeconds"] = 0;
  json answer = cluster.ask("DELETE", maps + "/a");
  going["metadata"]["resourceVersion"] = answer["metadata"]["resourceVersion"];
  CHECK(answer == going);
  CHECK(json::parse(send_later(cluster, "DELETE", maps + "/a", json::object()).body) == going);
  json pod = pod_without_job();
  pod["spec"]["nodeName"] = "local";
  cluster.send("POST", pods, pod);
  CHECK(cluster.ask("DELETE", pods + "/p?gracePeriodSeconds=20").at("metadata").at("deletionTimestamp") ==
        "2026-11-21T12:00:20Z");
  const json later = json::parse(send_later(cluster, "DELETE", pods + "/p", json::object()).body);
  CHECK(later.at("metadata").at("deletionTimestamp") == "2026-11-21T12:00:20Z");
  const json sooner =
      json::parse(send_later(cluster, "DELETE", pods + "/p", {{"gracePeriodSeconds", 5}}).body);
  CHECK(sooner.at("metadata").at("deletionTimestamp") == "2026-11-21T12:00:15Z");
  CHECK(sooner.at("metadata").at("deletionGracePeriodSeconds") == 5);
  CHECK(cluster.ask("DELETE", pods + "/p?gracePeriodSeconds=0").at("status") == "Success");
  CHECK(cluster.code("POST", pods, pod) == 201);
  // A value in the query overrides the value in the body, and a negative value counts as 0.
  CHECK(cluster.ask("DELETE", pods + "/p?gracePeriodSeconds=999999999", {{"gracePeriodSeconds", 1}})
            .at("metadata")
            .at("deletionGracePeriodSeconds") == 999999999);
  CHECK(cluster.ask("DELETE", pods + "/p", {{"gracePeriodSeconds", -1}}).at("status") == "Success");
}

TEST_CASE("gracePeriodSeconds in a DELETE has no effect if the object is not a pod") {
  Cluster cluster;
  cluster.send("POST", maps, map_named("a", {{"metadata", {{"finalizers", {"x.io/f"}}}}}));
  const json going = cluster.ask("DELETE", maps + "/a", {{"gracePeriodSeconds", 9}});
  CHECK(going.at("metadata").at("deletionGracePeriodSeconds") == 0);
  CHECK(going.at("metadata").at("deletionTimestamp") == "2026-11-21T12:00:00Z");
}

TEST_CASE("a repeated foreground deletion does not add the finalizer a second time") {
  Cluster cluster;
  cluster.send("POST", maps, map_named("a", {{"metadata", {{"finalizers", {"x.io/f"}}}}}));
  for (int i = 0; i < 2; ++i)
    CHECK(cluster.ask("DELETE", maps + "/a?propagationPolicy=Foreground").at("metadata").at("finalizers") ==
          json{"x.io/f", "foregroundDeletion"});
  cluster.send("POST", maps, map_named("b"));
  CHECK(cluster.ask("DELETE", maps + "/b", {{"propagationPolicy", "Foreground"}})
            .at("metadata")
            .at("finalizers") == json{"foregroundDeletion"});
  // The query overrides the body.
  cluster.send("POST", maps, map_named("c"));
  CHECK(cluster.ask("DELETE", maps + "/c?propagationPolicy=Background", {{"propagationPolicy", "Foreground"}})
            .at("status") == "Success");
}

TEST_CASE("a deletion is refused if the uid or version of the object does not match the preconditions") {
  Cluster cluster;
  const json a = cluster.ask("POST", maps, map_named("a"));
  const std::string uid = a.at("metadata").at("uid"), version = a.at("metadata").at("resourceVersion");
  const auto refused = [&](const json& wanted) {
    return cluster.ask("DELETE", maps + "/a", {{"preconditions", wanted}});
  };
  const std::string start = "Operation cannot be fulfilled on configmaps \"a\": Precondition failed: ";
  CHECK(refused({{"uid", "other"}}) ==
        json{{"kind", "Status"},
             {"apiVersion", "v1"},
             {"metadata", json::object()},
             {"status", "Failure"},
             {"reason", "Conflict"},
             {"message", start + "uid in precondition: other, in object meta: " + uid},
             {"details", {{"name", "a"}, {"kind", "configmaps"}}},
             {"code", 409}});
  CHECK(refused({{"uid", uid}, {"resourceVersion", "1"}}).at("message") ==
        start + "resourceVersion in precondition: 1, in object meta: " + version);
  CHECK(refused({{"uid", ""}, {"resourceVersion", version}}) == gone_answer(a, "", "configmaps"));
}

TEST_CASE(
    "DELETE gives a namespace the phase `Terminating`, a deletion time and the finalizer `kubernetes`") {
  Cluster cluster;
  const json team = cluster.ask("POST", teams, {{"metadata", {{"name", "team"}}}});
  json going = team;
  going["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z";
  going["metadata"]["deletionGracePeriodSeconds"] = 0;
  going["metadata"]["finalizers"] = {"kubernetes"};
  going["status"]["phase"] = "Terminating";
  json answer = cluster.ask("DELETE", teams + "/team");
  going["metadata"]["resourceVersion"] = answer["metadata"]["resourceVersion"];
  CHECK(answer == going);
}

TEST_CASE("a deletion with `Orphan` removes the references to the deleted owner, and no other references") {
  Cluster cluster;
  const json owner = cluster.ask("POST", maps, map_named("owner"));
  const json other = cluster.ask("POST", maps, map_named("other"));
  cluster.send("POST", teams, {{"metadata", {{"name", "team"}}}});
  const auto owned = [&](const json& owners) { return json{{"ownerReferences", owners}, {"name", "s"}}; };
  cluster.send("POST", "/api/v1/namespaces/default/secrets",
               {{"metadata", owned({owner_of(other), owner_of(owner, true), owner_of(other)})}});
  cluster.send("POST", teams + "/team/secrets", {{"metadata", owned(json::array({owner_of(owner)}))}});
  cluster.send("POST", jobs, job_named("j", json::object()));
  cluster.send("PATCH", jobs + "/j", {{"metadata", {{"ownerReferences", json::array({owner_of(other)})}}}},
               merge_patch);
  const json untouched = cluster.ask("GET", jobs + "/j");
  CHECK(cluster.ask("DELETE", maps + "/owner?propagationPolicy=Orphan") ==
        gone_answer(owner, "", "configmaps"));
  CHECK(cluster.ask("GET", "/api/v1/namespaces/default/secrets/s").at("metadata").at("ownerReferences") ==
        json{owner_of(other), owner_of(other)});
  CHECK(cluster.ask("GET", teams + "/team/secrets/s").at("metadata").at("ownerReferences").empty());
  CHECK(cluster.ask("GET", jobs + "/j") == untouched);
}

TEST_CASE("DELETE of a collection answers with a list of the deleted objects") {
  Cluster cluster;
  cluster.send("POST", maps, map_named("a", labelled("1")));
  cluster.send("POST", maps, map_named("b", labelled("2")));
  cluster.send("POST", maps, map_named("c", labelled("1")));
  cluster.send("POST", teams, {{"metadata", {{"name", "team"}}}});
  cluster.send("POST", teams + "/team/configmaps", map_named("a", labelled("1")));
  const std::string version = std::to_string(cluster.store.revision());
  const json answer =
      cluster.ask("DELETE", maps + "?labelSelector=l=1", {{"propagationPolicy", "Foreground"}});
  CHECK(answer.at("kind") == "ConfigMapList");
  CHECK(answer.at("apiVersion") == "v1");
  CHECK(answer.at("metadata") == json{{"resourceVersion", version}});
  CHECK(names(answer) == std::vector<std::string>{"a", "c"});
  for (const json& item : answer.at("items")) {
    CHECK(item.at("metadata").at("finalizers") == json{"foregroundDeletion"});
    CHECK(item.at("metadata").at("deletionTimestamp") == "2026-11-21T12:00:00Z");
    CHECK_FALSE(item.contains("kind"));
  }
  CHECK(names(cluster.ask("DELETE", maps + "?fieldSelector=metadata.name=b")) ==
        std::vector<std::string>{"b"});
  CHECK(cluster.code("GET", maps + "/b") == 404);
  CHECK(cluster.code("GET", teams + "/team/configmaps/a") == 200);
  // Namespaces are in no namespace, so a request can select all of them.
  CHECK(names(cluster.ask("DELETE", teams + "?fieldSelector=metadata.name=team")) ==
        std::vector<std::string>{"team"});
}

TEST_CASE("PUT and PATCH give the object a new version if they change anything") {
  Cluster cluster;
  const json a = cluster.ask("POST", maps, map_named("a"));
  const Answer same = cluster.send("PUT", maps + "/a", a);
  CHECK(same.status == 200);
  CHECK(json::parse(same.body) == a);
  json changed = a;
  changed["data"]["k"] = "w";
  const json answer = cluster.ask("PATCH", maps + "/a", {{"data", {{"k", "w"}}}}, merge_patch);
  changed["metadata"]["resourceVersion"] = std::to_string(cluster.store.revision());
  CHECK(answer == changed);
  CHECK(cluster.ask("GET", maps + "/a") == changed);
  const json table = json::parse(
      cluster.send("PUT", maps + "/a", changed, "application/json", "application/json;as=Table").body);
  CHECK(table.at("rows").at(0).at("cells") == json{"a", 1, "0s"});
  const json not_there = cluster.ask("PATCH", maps + "/none", json::object(), merge_patch);
  CHECK(not_there.at("message") == "configmaps \"none\" not found");
}

TEST_CASE(
    "the first apply creates an object with the name in the path, and the next apply changes this object") {
  Cluster cluster;
  const std::string apply = "application/apply-patch+yaml";
  json object = map_named("other", labelled("1"));
  const Answer made = cluster.send("PATCH", maps + "/a?fieldManager=m", object, apply);
  CHECK(made.status == 201);
  CHECK(without_identity(json::parse(made.body)) ==
        R"({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
            "metadata": {"name": "a", "namespace": "default", "labels": {"l": "1"},
                         "creationTimestamp": "2026-11-21T12:00:00Z"}})"_json);
  const Answer merged = cluster.send("PATCH", maps + "/a?fieldManager=m", {{"data", {{"n", "2"}}}}, apply);
  CHECK(merged.status == 200);
  CHECK(json::parse(merged.body).at("data") == R"({"k": "v", "n": "2"})"_json);
}

}  // namespace
}  // namespace mlk::local
