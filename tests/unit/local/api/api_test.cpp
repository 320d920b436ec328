// The REST API, request by request, without sockets.
#include "cli/local/api/api.h"

#include <doctest/doctest.h>

#include "cli/local/jobs/jobs.h"
#include "cli/local/state/seed.h"
#include "tests/unit/local/api_cluster.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/api/api");

using namespace mlk::local;
using namespace mlk::local::samples;

TEST_CASE("a request that cannot be served is refused with the right status code and reason") {
  const struct {
    const char* method;
    std::string path;
    json body;
    int status;
    const char* reason;
  } table[] = {
      {"GET", "/nowhere", nullptr, 404, "NotFound"},
      {"GET", "/api/v1/namespaces/default/replicasets", nullptr, 404, "NotFound"},
      {"GET", maps + "/none", nullptr, 404, "NotFound"},
      {"GET", "/api/v1/configmaps/x", nullptr, 404, "NotFound"},
      {"GET", pods + "/x/exec", nullptr, 404, "NotFound"},
      {"POST", maps, "{", 400, "BadRequest"},
      {"POST", maps, "[]", 400, "BadRequest"},
      {"POST", maps, std::string(5000, '['), 400, "BadRequest"},
      {"POST", maps, job_named("x"), 400, "BadRequest"},
      {"POST", maps, map_named("Bad_Name"), 422, "Invalid"},
      {"POST", maps, map_named(""), 422, "Invalid"},
      {"POST", maps, map_named("x", {{"metadata", {{"namespace", "other"}}}}), 400, "BadRequest"},
      {"POST", maps, map_named("x", {{"metadata", {{"labels", {{"a", "not valid"}}}}}}), 422, "Invalid"},
      {"POST", maps, map_named("x", {{"data", {{"../up", "x"}}}}), 422, "Invalid"},
      {"POST", maps, map_named("x", {{"data", {{"k", 1}}}}), 400, "BadRequest"},
      {"POST", "/api/v1/namespaces/none/configmaps", map_named("x"), 404, "NotFound"},
      {"POST", maps + "?fieldValidation=Strict", map_named("x", {{"dat", 1}}), 400, "BadRequest"},
      {"POST", maps + "?dryRun=Some", map_named("x"), 422, "Invalid"},
      {"PUT", maps + "/none", map_named("none"), 404, "NotFound"},
      {"DELETE", maps + "/none", nullptr, 404, "NotFound"},
      {"DELETE", "/api/v1/nodes/local", nullptr, 405, "MethodNotAllowed"},
      {"GET", maps + "?labelSelector=a b", nullptr, 400, "BadRequest"},
      {"GET", maps + "?continue=nonsense", nullptr, 400, "BadRequest"},
      {"GET", maps + "?continue=eyJydiI6MWUzMCwiYWZ0ZXIiOiJ4In0%3D", nullptr, 400,
       "BadRequest"},  // {"rv":1e30,"after":"x"}
      {"GET", maps + "?fieldSelector=data.k=v", nullptr, 400, "BadRequest"},
      {"GET", pods + "?watch=1&fieldSelector=spec.foo=v", nullptr, 400, "BadRequest"},
      {"DELETE", maps + "?fieldSelector=data.k=v", nullptr, 400, "BadRequest"},
      {"GET", maps + "?limit=-1", nullptr, 400, "BadRequest"},
      {"GET", maps + "?resourceVersion=999999999", nullptr, 504, "Timeout"},
  };
  Cluster cluster;
  for (const auto& row : table) {
    CAPTURE(row.method);
    CAPTURE(row.path);
    const Answer answer = cluster.send(row.method, row.path, row.body);
    const json status = json::parse(answer.body);
    CHECK(answer.status == row.status);
    CHECK(status.at("kind") == "Status");
    CHECK(status.at("reason") == row.reason);
    CHECK(!status.at("message").get<std::string>().empty());
  }
}

TEST_CASE("POST creates an object with a namespace, a uid and a creation time") {
  Cluster cluster;
  const Answer answer =
      cluster.send("POST", maps + "?fieldValidation=Strict&fieldManager=mlk", map_named("a"));
  CHECK(answer.status == 201);
  const json made = json::parse(answer.body);
  CHECK(made.at("metadata").at("namespace") == "default");
  CHECK(made.at("metadata").at("uid").get<std::string>().size() == 36);
  CHECK(made.at("metadata").at("creationTimestamp") == "2026-11-21T12:00:00Z");
  CHECK(cluster.ask("GET", maps + "/a") == made);
  CHECK(cluster.ask("POST", maps, map_named("a")).at("reason") == "AlreadyExists");
}

TEST_CASE("generateName makes a new name each time") {
  Cluster cluster;
  json object = map_named("");
  object["metadata"] = {{"generateName", "a-"}};
  const std::string first = cluster.ask("POST", maps, object).at("metadata").at("name");
  CHECK(first.size() == 7);
  CHECK(first != cluster.ask("POST", maps, object).at("metadata").at("name").get<std::string>());
}

TEST_CASE("a request with dryRun=All is checked like a real request, and stores nothing") {
  Cluster cluster;
  CHECK(cluster.code("POST", maps + "?dryRun=All", map_named("a")) == 201);
  CHECK(cluster.code("GET", maps + "/a") == 404);
  cluster.send("POST", maps, map_named("a"));
  CHECK(cluster.code("POST", maps + "?dryRun=All", map_named("a")) == 409);
  CHECK(cluster.code("DELETE", maps + "/a?dryRun=All") == 200);
  CHECK(cluster.ask("DELETE", maps + "/a", {{"dryRun", {"All"}}}).at("kind") == "ConfigMap");
  CHECK(
      cluster.ask("PATCH", maps + "/a?dryRun=All", {{"data", {{"k", "new"}}}}, "application/merge-patch+json")
          .at("data")
          .at("k") == "new");
  CHECK(cluster.ask("GET", maps + "/a").at("data").at("k") == "v");
}

TEST_CASE(
    "fieldValidation=Strict refuses a misspelt field of a Job, and Warn drops the field with a warning") {
  const json typo = job_named("j", {{"backofLimit", 1}}, {{"comand", {"x"}}});
  Cluster cluster;
  const json refused = cluster.ask("POST", jobs + "?fieldValidation=Strict", typo);
  CHECK(refused.at("code") == 400);
  CHECK(refused.at("message") ==
        "Job in version \"v1\" cannot be handled as a Job: strict decoding error: unknown field "
        "\"spec.backofLimit\", unknown field "
        "\"spec.template.spec.containers[0].comand\"");
  const Answer warned = cluster.send("POST", jobs + "?fieldValidation=Warn", typo);
  CHECK(warned.status == 201);
  CHECK(warned.warning.find("spec.backofLimit") != std::string::npos);
  CHECK(!cluster.ask("GET", jobs + "/j").at("spec").contains("backofLimit"));
}

TEST_CASE("a Job is refused if a value has the wrong type, as in Kubernetes") {
  Cluster cluster;
  CHECK(cluster.code("POST", jobs, job_named("j", {{"completions", "2"}})) == 400);
  CHECK(cluster.code("POST", jobs,
                     job_named("j", json::object(), {{"env", {{{"name", "A"}, {"value", 1}}}}})) == 400);
  CHECK(cluster.code("POST", jobs, job_named("j", json::object(), {{"command", "true"}})) == 400);
}

TEST_CASE("a Job is refused if Kubernetes would refuse it, or if local processes cannot run it") {
  const struct {
    const char* field;
    json spec;
  } table[] = {
      {"spec.completionMode", {{"completionMode", "NonIndexed"}}},
      {"spec.parallelism", {{"parallelism", -1}}},
      {"spec.template.spec.restartPolicy", {{"template", {{"spec", {{"restartPolicy", "OnFailure"}}}}}}},
      {"spec.template.spec.containers", {{"template", {{"spec", {{"containers", json::array()}}}}}}},
      {"spec.backoffLimitPerIndex", {{"maxFailedIndexes", 1}}},
      {"spec.podFailurePolicy.rules.action",
       {{"podFailurePolicy", {{"rules", {{{"action", "Panic"}, {"onExitCodes", json::object()}}}}}}}},
      {"spec.podFailurePolicy.rules.onExitCodes.values",
       {{"podFailurePolicy",
         {{"rules", {{{"action", "FailJob"}, {"onExitCodes", {{"operator", "In"}, {"values", {0}}}}}}}}}}},
      {"spec.podReplacementPolicy",
       {{"podReplacementPolicy", "TerminatingOrFailed"}, {"podFailurePolicy", {{"rules", json::array()}}}}},
      {"spec.successPolicy.rules.succeededIndexes",
       {{"successPolicy", {{"rules", {{{"succeededIndexes", "x"}}}}}}}}};
  Cluster cluster;
  for (const auto& row : table) {
    CAPTURE(row.field);
    const json answer = cluster.ask("POST", jobs, job_named("j", row.spec));
    CHECK(answer.at("code") == 422);
    REQUIRE(answer.contains("details"));
    CHECK(answer.at("details").at("causes").at(0).at("field") == row.field);
  }
}

TEST_CASE("a Job gets the same defaults and labels as in Kubernetes") {
  Cluster cluster;
  const json made = cluster.ask("POST", jobs, job_named("j", {{"backoffLimitPerIndex", 1}}));
  const json& spec = made.at("spec");
  CHECK(spec.at("backoffLimit") == 2147483647);
  CHECK(spec.at("suspend") == false);
  CHECK(spec.at("podReplacementPolicy") == "TerminatingOrFailed");
  CHECK(spec.at("template").at("metadata").at("labels").at("batch.kubernetes.io/job-name") == "j");
  CHECK(spec.at("selector").at("matchLabels").at("batch.kubernetes.io/controller-uid") ==
        made.at("metadata").at("uid"));
  CHECK(spec.at("template").at("spec").at("containers").at(0).at("terminationMessagePath") ==
        "/dev/termination-log");
}

TEST_CASE("a patch of an immutable field is refused, and a patch of another field is applied") {
  Cluster cluster;
  cluster.send("POST", maps, map_named("a", {{"immutable", true}}));
  const std::string merge = "application/merge-patch+json";
  CHECK(cluster.code("PATCH", maps + "/a", {{"data", {{"k", "w"}}}}, merge) == 422);
  CHECK(cluster.code("PATCH", maps + "/a", {{"metadata", {{"labels", {{"l", "1"}}}}}}, merge) == 200);
  cluster.send("POST", jobs, job_named("j"));
  CHECK(cluster.code("PATCH", jobs + "/j", {{"spec", {{"completionMode", "NonIndexed"}}}}, merge) == 422);
  CHECK(cluster.code("PATCH", jobs + "/j", {{"spec", {{"completions", 3}}}}, merge) == 422);
  CHECK(cluster.code("PATCH", jobs + "/j", {{"spec", {{"completions", 3}, {"parallelism", 3}}}}, merge) ==
        200);
  CHECK(cluster.ask("PATCH", jobs + "/j", {{"spec", {{"suspend", true}}}}, merge)
            .at("metadata")
            .at("generation") == 3);
}

TEST_CASE("an update with an old version is refused, and an update without a version is applied") {
  Cluster cluster;
  json object = cluster.ask("POST", maps, map_named("a"));
  object["data"]["k"] = "w";
  const json changed = cluster.ask("PUT", maps + "/a", object);
  CHECK(changed.at("data").at("k") == "w");
  const json stale = cluster.ask("PUT", maps + "/a", object);
  CHECK(stale.at("reason") == "Conflict");
  object["metadata"].erase("resourceVersion");
  CHECK(cluster.code("PUT", maps + "/a", object) == 200);
}

TEST_CASE("strategic, JSON and apply patches are applied, and an unknown type of patch is refused") {
  Cluster cluster;
  cluster.send("POST", jobs,
               job_named("j", {{"suspend", true}}, {{"env", {{{"name", "A"}, {"value", "1"}}}}}));
  CHECK(cluster
            .ask("PATCH", jobs + "/j", {{"metadata", {{"labels", {{"x", "1"}}}}}},
                 "application/strategic-merge-patch+json")
            .at("metadata")
            .at("labels")
            .at("x") == "1");
  const json plus = {{{"op", "replace"}, {"path", "/spec/suspend"}, {"value", false}}};
  CHECK(cluster.ask("PATCH", jobs + "/j", plus, "application/json-patch+json").at("spec").at("suspend") ==
        false);
  CHECK(cluster.code("PATCH", jobs + "/j", {{{"op", "remove"}, {"path", "/none"}}},
                     "application/json-patch+json") == 422);
  CHECK(cluster.code("PATCH", jobs + "/j", {{"x", 1}}, "application/xml") == 415);
  const std::string apply = "application/apply-patch+yaml";
  CHECK(cluster.code("PATCH", maps + "/new", map_named("new"), apply) == 422);
  CHECK(cluster.code("PATCH", maps + "/new?fieldManager=me", map_named("new"), apply) == 201);
  CHECK(cluster.ask("PATCH", maps + "/new?fieldManager=me", map_named("new", {{"data", {{"k", "2"}}}}), apply)
            .at("data")
            .at("k") == "2");
}

TEST_CASE("a list can be filtered and divided into pages, and all pages show the same version") {
  Cluster cluster;
  for (const char* name : {"a", "b", "c", "d"}) {
    cluster.send(
        "POST", maps,
        map_named(name, {{"metadata", {{"labels", {{"odd", name < std::string("c") ? "1" : "0"}}}}}}));
  }
  CHECK(names(cluster.ask("GET", maps + "?labelSelector=odd=1")) == std::vector<std::string>{"a", "b"});
  CHECK(names(cluster.ask("GET", maps + "?fieldSelector=metadata.name=c")) == std::vector<std::string>{"c"});
  CHECK(names(cluster.ask("GET", "/api/v1/configmaps")).size() == 4);
  const json first = cluster.ask("GET", maps + "?limit=3");
  CHECK(names(first) == std::vector<std::string>{"a", "b", "c"});
  CHECK(first.at("metadata").at("remainingItemCount") == 1);
  cluster.send("DELETE", maps + "/d");
  const json second = cluster.ask(
      "GET", maps + "?limit=3&continue=" + first.at("metadata").at("continue").get<std::string>());
  CHECK(names(second) == std::vector<std::string>{"d"});
  CHECK(second.at("metadata").at("resourceVersion") == first.at("metadata").at("resourceVersion"));
}

TEST_CASE("resourceVersionMatch=Exact lists the requested version, and NotOlderThan the newest version") {
  Cluster cluster;
  const json first = cluster.ask("POST", maps, map_named("a"));
  const std::string then = first.at("metadata").at("resourceVersion");
  cluster.send("POST", maps, map_named("b"));
  const std::string at = maps + "?resourceVersion=" + then + "&resourceVersionMatch=";
  CHECK(names(cluster.ask("GET", at + "Exact")) == std::vector<std::string>{"a"});
  CHECK(cluster.ask("GET", at + "Exact").at("metadata").at("resourceVersion") == then);
  CHECK(names(cluster.ask("GET", at + "NotOlderThan")) == std::vector<std::string>{"a", "b"});
  CHECK(cluster.code("GET", maps + "?resourceVersion=999999") == 504);
}

TEST_CASE("`status` and `finalize` after a namespace in the path are subresources, not kinds of objects") {
  Cluster cluster;
  CHECK(cluster.ask("PUT", "/api/v1/namespaces/default/status", json::object()).at("kind") == "Namespace");
  CHECK(cluster.ask("PUT", "/api/v1/namespaces/default/finalize", json::object()).at("message") ==
        "the local cluster does not serve namespaces/finalize");
  CHECK(cluster.ask("GET", "/api/v1/namespaces/default/nonsense").at("message") ==
        "the server could not find the requested resource");
}

TEST_CASE(
    "the Accept header chooses objects, tables or metadata, and a header with only protobuf is refused") {
  Cluster cluster;
  cluster.send("POST", maps, map_named("a"));
  const auto form = [&](const std::string& accept) {
    return cluster.send("GET", maps + "/a", nullptr, "", accept);
  };
  CHECK(json::parse(form("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").body).at("kind") ==
        "Table");
  const json metadata =
      json::parse(form("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").body);
  CHECK(metadata.at("kind") == "PartialObjectMetadata");
  CHECK(!metadata.contains("data"));
  CHECK(json::parse(form("application/vnd.kubernetes.protobuf,application/json").body).at("kind") ==
        "ConfigMap");
  CHECK(form("application/vnd.kubernetes.protobuf").status == 406);
  CHECK(cluster.send("POST", maps, "x", "application/vnd.kubernetes.protobuf").status == 415);
}

TEST_CASE("a watch with the version of a list sends all changes since this list") {
  Cluster cluster;
  const std::string since = cluster.ask("GET", maps).at("metadata").at("resourceVersion");
  cluster.send("POST", maps, map_named("a", {{"metadata", {{"labels", {{"l", "1"}}}}}}));
  cluster.send("PATCH", maps + "/a", {{"metadata", {{"labels", {{"l", "2"}}}}}},
               "application/merge-patch+json");
  cluster.send("DELETE", maps + "/a");
  const auto types = [&](const std::string& more) {
    std::vector<std::string> result;
    for (const json& event : cluster.stream(maps + "?watch=1&resourceVersion=" + since + more))
      result.push_back(event.at("type"));
    return result;
  };
  CHECK(types("&timeoutSeconds=1") == std::vector<std::string>{"ADDED", "MODIFIED", "DELETED"});
  CHECK(types("&timeoutSeconds=1&labelSelector=l=2") == std::vector<std::string>{"ADDED", "DELETED"});
  CHECK(types("&timeoutSeconds=1&labelSelector=l=1") == std::vector<std::string>{"ADDED", "DELETED"});
  CHECK(types("&timeoutSeconds=1&allowWatchBookmarks=true&fieldSelector=metadata.name=z") ==
        std::vector<std::string>{"BOOKMARK"});
}

TEST_CASE("a watch with sendInitialEvents sends the existing objects first, and then a bookmark") {
  Cluster cluster;
  cluster.send("POST", maps, map_named("a"));
  const std::vector<json> events =
      cluster.stream(maps + "?watch=1&timeoutSeconds=1&sendInitialEvents=true&allowWatchBookmarks=true");
  REQUIRE(events.size() >= 2);
  CHECK(events[0].at("type") == "ADDED");
  CHECK(events[1].at("type") == "BOOKMARK");
  CHECK(events[1].at("object").at("metadata").at("annotations").at("k8s.io/initial-events-end") == "true");
}

TEST_CASE("an access review allows everything, and discovery lists the groups and resources") {
  Cluster cluster;
  const std::string review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
  CHECK(cluster.ask("POST", review, {{"kind", "SelfSubjectAccessReview"}}).at("status").at("allowed") ==
        true);
  CHECK(cluster.ask("GET", "/version").at("gitVersion") == "v1.37.0+mlk");
  CHECK(cluster.ask("GET", "/apis").at("groups").at(0).at("name") == "batch");
  CHECK(cluster.ask("GET", "/apis/batch/v1").at("resources").at(0).at("name") == "jobs");
  CHECK(cluster.send("GET", "/readyz").body == "ok");
}

TEST_CASE("the log of a pod that has not started is refused or empty, as in Kubernetes") {
  Cluster cluster;
  cluster.send("POST", pods, pod_without_job());
  const Answer unbound = cluster.send("GET", pods + "/p/log");
  CHECK(unbound.status == 200);
  CHECK(unbound.body.empty());
  cluster.store.modify("pods", "default", "p", [](json& object) { object["spec"]["nodeName"] = "local"; });
  CHECK(cluster.code("GET", pods + "/p/log") == 400);
  CHECK(cluster.code("GET", pods + "/p/log?container=other") == 400);
  CHECK(cluster.code("GET", pods + "/p/log?previous=true") == 400);
  CHECK(cluster.code("GET", pods + "/p/log?sinceSeconds=1&sinceTime=2026-11-21T12:00:00Z") == 422);
  CHECK(cluster.code("GET", pods + "/p/log?sinceSeconds=0") == 422);
  CHECK(cluster.code("GET", pods + "/p/log?sinceSeconds=9223372036854775807") == 400);
}

TEST_CASE("an update of an object keeps the old status, and an update of the status keeps the old spec") {
  Cluster cluster;
  const std::string merge = "application/merge-patch+json";
  cluster.send("POST", jobs, job_named("j"));
  step_jobs(cluster.store, noon);
  const json both = {{"spec", {{"suspend", true}}}, {"status", {{"active", 7}}}};
  const json of_status = cluster.ask("PATCH", jobs + "/j/status", both, merge);
  CHECK(of_status.at("status").at("active") == 7);
  CHECK(of_status.at("spec").at("suspend") == false);
  json wanted = of_status;
  wanted["spec"]["suspend"] = true;
  wanted["status"]["active"] = 9;
  const json changed = cluster.ask("PUT", jobs + "/j", wanted);
  CHECK(changed.at("spec").at("suspend") == true);
  CHECK(changed.at("status").at("active") == 7);
}

TEST_CASE("if two requests add the same finalizer, the object has the finalizer once") {
  Cluster cluster;
  cluster.send("POST", maps, map_named("a"));
  const json patch = {{"metadata", {{"finalizers", {"example.com/hold"}}}}};
  for (int i = 0; i < 2; ++i)
    cluster.send("PATCH", maps + "/a", patch, "application/strategic-merge-patch+json");
  CHECK(cluster.ask("GET", maps + "/a").at("metadata").at("finalizers") == json{"example.com/hold"});
}
