// The complete discovery documents, from which clients learn the served resources.
#include "cli/local/api/discovery.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/local/state/kinds.h"
#include "cli/local/state/status.h"

TEST_SUITE_BEGIN("local/api/discovery");

namespace mlk::local {
namespace {

using namespace nlohmann::literals;

json document(const std::string& path) { return discover(path).value_or(json("none")); }

// A resource in a discovery document, by its name, singular name, namespaced and kind.
json served(const std::string& name, const std::string& singular, bool namespaced, const std::string& kind,
            const json& verbs, const json& short_names = nullptr) {
  json resource = {{"name", name},
                   {"singularName", singular},
                   {"namespaced", namespaced},
                   {"kind", kind},
                   {"verbs", verbs}};
  if (!short_names.is_null()) resource["shortNames"] = short_names;
  return resource;
}

const json read_verbs = {"get", "list", "watch"};
const json all_verbs = {"get", "list", "watch", "create", "delete", "deletecollection", "patch", "update"};
const json status_verbs = {"get", "patch", "update"};

json listed(const std::string& version, const json& resources) {
  return {
      {"kind", "APIResourceList"}, {"apiVersion", "v1"}, {"groupVersion", version}, {"resources", resources}};
}

json group_named(const std::string& name) {
  const json version = {{"groupVersion", name + "/v1"}, {"version", "v1"}};
  return {{"name", name}, {"versions", {version}}, {"preferredVersion", version}};
}

json patch_of(const std::string& group, const std::string& kind) {
  json parameters = json::array();
  for (const char* name : {"fieldValidation", "dryRun", "fieldManager"})
    parameters.push_back({{"name", name}, {"in", "query"}, {"schema", {{"type", "string"}}}});
  return {{"patch",
           {{"parameters", parameters},
            {"responses", {{"200", {{"description", "OK"}}}}},
            {"x-kubernetes-action", "patch"},
            {"x-kubernetes-group-version-kind", {{"group", group}, {"version", "v1"}, {"kind", kind}}}}}};
}

json openapi_with(const json& paths) {
  return {{"openapi", "3.0.0"}, {"info", {{"title", "mlk local"}, {"version", "v1"}}}, {"paths", paths}};
}

TEST_CASE("/version reports Kubernetes 1.37 with the suffix +mlk") {
  CHECK(document("/version") == R"({"major": "1", "minor": "37", "gitVersion": "v1.37.0+mlk",
    "gitCommit": "", "gitTreeState": "clean", "buildDate": "", "goVersion": "", "compiler": "",
    "platform": "local"})"_json);
}

TEST_CASE(
    "the document of the core group (/api/v1) has each resource with short names, verbs and subresources") {
  CHECK(document("/api") ==
        R"({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})"_json);
  CHECK(document("/api/v1") ==
        listed("v1", {served("namespaces", "namespace", false, "Namespace", all_verbs, {"ns"}),
                      served("namespaces/status", "", false, "Namespace", status_verbs),
                      served("nodes", "node", false, "Node", read_verbs, {"no"}),
                      served("serviceaccounts", "serviceaccount", true, "ServiceAccount", read_verbs, {"sa"}),
                      served("configmaps", "configmap", true, "ConfigMap", all_verbs, {"cm"}),
                      served("secrets", "secret", true, "Secret", all_verbs),
                      served("services", "service", true, "Service", all_verbs, {"svc"}),
                      served("services/status", "", true, "Service", status_verbs),
                      served("pods", "pod", true, "Pod", all_verbs, {"po"}),
                      served("pods/status", "", true, "Pod", status_verbs),
                      served("pods/log", "", true, "Pod", {"get"}),
                      served("events", "event", true, "Event", all_verbs, {"ev"})}));
}

TEST_CASE("the document of each named group has all resources of this group") {
  CHECK(document("/apis/batch/v1") ==
        listed("batch/v1", {served("jobs", "job", true, "Job", all_verbs),
                            served("jobs/status", "", true, "Job", status_verbs)}));
  CHECK(document("/apis/coordination.k8s.io/v1") ==
        listed("coordination.k8s.io/v1", json::array({served("leases", "lease", true, "Lease", all_verbs)})));
  CHECK(document("/apis/authorization.k8s.io/v1") ==
        listed("authorization.k8s.io/v1",
               {served("selfsubjectaccessreviews", "", false, "SelfSubjectAccessReview", {"create"}),
                served("selfsubjectrulesreviews", "", false, "SelfSubjectRulesReview", {"create"})}));
  CHECK(document("/apis/authentication.k8s.io/v1") ==
        listed("authentication.k8s.io/v1",
               json::array({served("selfsubjectreviews", "", false, "SelfSubjectReview", {"create"})})));
}

TEST_CASE("/apis lists the named groups in a fixed order, each with one version") {
  const std::vector<std::string> groups = {"batch", "coordination.k8s.io", "authorization.k8s.io",
                                           "authentication.k8s.io"};
  json all = json::array();
  for (const std::string& name : groups) {
    all.push_back(group_named(name));
    json alone = group_named(name);
    alone["kind"] = "APIGroup";
    alone["apiVersion"] = "v1";
    CHECK_MESSAGE(document("/apis/" + name) == alone, name);
  }
  CHECK(document("/apis") == json{{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", all}});
}

TEST_CASE("the OpenAPI index names a document for each group of the API") {
  CHECK(document("/openapi/v3") == R"({"paths": {
    "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1"},
    "apis/batch/v1": {"serverRelativeURL": "/openapi/v3/apis/batch/v1"},
    "apis/coordination.k8s.io/v1": {"serverRelativeURL": "/openapi/v3/apis/coordination.k8s.io/v1"},
    "apis/authorization.k8s.io/v1": {"serverRelativeURL": "/openapi/v3/apis/authorization.k8s.io/v1"},
    "apis/authentication.k8s.io/v1": {"serverRelativeURL": "/openapi/v3/apis/authentication.k8s.io/v1"}
  }})"_json);
  json core = {{"/api/v1/namespaces/{name}", patch_of("", "Namespace")}};
  for (const auto& [plural, kind] : {std::pair("configmaps", "ConfigMap"),
                                     {"secrets", "Secret"},
                                     {"services", "Service"},
                                     {"pods", "Pod"},
                                     {"events", "Event"}})
    core[std::string("/api/v1/namespaces/{namespace}/") + plural + "/{name}"] = patch_of("", kind);
  CHECK(document("/openapi/v3/api/v1") == openapi_with(core));
  CHECK(document("/openapi/v3/apis/batch/v1") ==
        openapi_with({{"/apis/batch/v1/namespaces/{namespace}/jobs/{name}", patch_of("batch", "Job")}}));
  CHECK(document("/openapi/v3/apis/coordination.k8s.io/v1") ==
        openapi_with({{"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}",
                       patch_of("coordination.k8s.io", "Lease")}}));
  CHECK(document("/openapi/v3/apis/authorization.k8s.io/v1") == openapi_with(json::object()));
}

TEST_CASE("discover() returns no document for a path that is not in the API") {
  for (const char* path :
       {"", "/", "/versio", "/version/", "/apis/", "/api/v2", "/apis/batch/v2", "/apis/none", "/openapi/v2",
        "/openapi/v3/apis/none/v1", "/api/v1/pods", "/apis/batch/v1/jobs"})
    CHECK_MESSAGE(!discover(path), path);
}

TEST_CASE("a kind is found by its group, version and plural name together") {
  const struct {
    const char* api_version;
    const char* plural;
    const char* kind;
    bool has_status, has_generation;
  } table[] = {{"v1", "namespaces", "Namespace", true, false},
               {"v1", "nodes", "Node", true, false},
               {"v1", "serviceaccounts", "ServiceAccount", false, false},
               {"v1", "configmaps", "ConfigMap", false, false},
               {"v1", "secrets", "Secret", false, false},
               {"v1", "services", "Service", true, false},
               {"v1", "pods", "Pod", true, true},
               {"v1", "events", "Event", false, false},
               {"batch/v1", "jobs", "Job", true, true},
               {"coordination.k8s.io/v1", "leases", "Lease", false, false}};
  REQUIRE(kinds().size() == std::size(table));
  for (std::size_t i = 0; i < std::size(table); ++i) {
    const auto& row = table[i];
    CAPTURE(row.plural);
    const Kind& kind = kind_of(row.plural);
    CHECK(&kind == &kinds()[i]);
    CHECK(kind.kind == row.kind);
    CHECK(kind.api_version() == row.api_version);
    CHECK(kind.has_status == row.has_status);
    CHECK(kind.has_generation == row.has_generation);
    CHECK(find_kind(kind.group, kind.version, kind.plural) == &kind);
    CHECK(find_kind(kind.group + "x", kind.version, kind.plural) == nullptr);
    CHECK(find_kind(kind.group, "v2", kind.plural) == nullptr);
    CHECK(find_kind(kind.group, kind.version, kind.singular()) == nullptr);
  }
  CHECK_THROWS_WITH_AS(kind_of("job"), "no kind job", std::out_of_range);
  const Kind by_default;
  CHECK(by_default.namespaced);
  CHECK(by_default.writable);
  CHECK_FALSE(by_default.has_status);
  CHECK_FALSE(by_default.has_generation);
}

}  // namespace
}  // namespace mlk::local
