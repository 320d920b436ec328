#include "cli/local/api/discovery.h"

#include <nlohmann/json.hpp>

#include "cli/local/state/kinds.h"

namespace mlk::local {
namespace {

using nlohmann::json;

// A resource that only answers reviews. The table of kinds does not have such resources.
struct Review {
  const char* group;
  const char* plural;
  const char* kind;
};
constexpr Review reviews[] = {{"authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"},
                              {"authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"},
                              {"authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"}};
constexpr const char* groups[] = {"batch", "coordination.k8s.io", "authorization.k8s.io",
                                  "authentication.k8s.io"};

json group_object(const std::string& name) {
  const json version = {{"groupVersion", name + "/v1"}, {"version", "v1"}};
  return {{"name", name}, {"versions", json::array({version})}, {"preferredVersion", version}};
}

json resource_list(const std::string& group) {
  json resources = json::array();
  for (const Kind& kind : kinds()) {
    if (kind.group != group) continue;
    json verbs = {"get", "list", "watch"};
    if (kind.writable) {
      for (const char* verb : {"create", "delete", "deletecollection", "patch", "update"})
        verbs.push_back(verb);
    }
    json resource = {{"name", kind.plural},
                     {"singularName", kind.singular()},
                     {"namespaced", kind.namespaced},
                     {"kind", kind.kind},
                     {"verbs", verbs}};
    if (!kind.short_names.empty()) resource["shortNames"] = kind.short_names;
    resources.push_back(resource);
    json sub = {{"singularName", ""}, {"namespaced", kind.namespaced}, {"kind", kind.kind}};
    if (kind.has_status && kind.writable) {
      sub["name"] = kind.plural + "/status";
      sub["verbs"] = {"get", "patch", "update"};
      resources.push_back(sub);
    }
    if (kind.kind == "Pod") {
      sub["name"] = "pods/log";
      sub["verbs"] = {"get"};
      resources.push_back(sub);
    }
  }
  for (const Review& review : reviews) {
    if (group != review.group) continue;
    resources.push_back({{"name", review.plural},
                         {"singularName", ""},
                         {"namespaced", false},
                         {"kind", review.kind},
                         {"verbs", {"create"}}});
  }
  return {{"kind", "APIResourceList"},
          {"apiVersion", "v1"},
          {"groupVersion", group.empty() ? "v1" : group + "/v1"},
          {"resources", resources}};
}

// The OpenAPI document of a group, with only the parts that kubectl reads: the kinds, and the parameters of a
// patch. Since fieldValidation is one of these parameters, kubectl leaves the validation to the server.
json openapi(const std::string& group) {
  json paths = json::object();
  for (const Kind& kind : kinds()) {
    if (kind.group != group || !kind.writable) continue;
    const std::string root = group.empty() ? "/api/v1" : "/apis/" + group + "/v1";
    const std::string path =
        root + (kind.namespaced ? "/namespaces/{namespace}/" : "/") + kind.plural + "/{name}";
    json parameters = json::array();
    for (const char* name : {"fieldValidation", "dryRun", "fieldManager"}) {
      parameters.push_back({{"name", name}, {"in", "query"}, {"schema", {{"type", "string"}}}});
    }
    paths[path]["patch"] = {
        {"parameters", parameters},
        {"responses", {{"200", {{"description", "OK"}}}}},
        {"x-kubernetes-action", "patch"},
        {"x-kubernetes-group-version-kind", {{"group", group}, {"version", "v1"}, {"kind", kind.kind}}}};
  }
  return {{"openapi", "3.0.0"}, {"info", {{"title", "mlk local"}, {"version", "v1"}}}, {"paths", paths}};
}

json openapi_roots() {
  json paths = {{"api/v1", {{"serverRelativeURL", "/openapi/v3/api/v1"}}}};
  for (const char* group : groups) {
    const std::string path = std::string("apis/") + group + "/v1";
    paths[path] = {{"serverRelativeURL", "/openapi/v3/" + path}};
  }
  return {{"paths", paths}};
}

}  // namespace

std::optional<json> discover(const std::string& path) {
  if (path == "/version") {
    return json{{"major", "1"},    {"minor", "37"},           {"gitVersion", "v1.37.0+mlk"},
                {"gitCommit", ""}, {"gitTreeState", "clean"}, {"buildDate", ""},
                {"goVersion", ""}, {"compiler", ""},          {"platform", "local"}};
  }
  if (path == "/api") {
    return json{{"kind", "APIVersions"}, {"versions", {"v1"}}, {"serverAddressByClientCIDRs", json::array()}};
  }
  if (path == "/api/v1") return resource_list("");
  if (path == "/apis") {
    json list = json::array();
    for (const char* group : groups) list.push_back(group_object(group));
    return json{{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", list}};
  }
  for (const std::string group : groups) {
    if (path == "/apis/" + group) {
      json object = group_object(group);
      object["kind"] = "APIGroup";
      object["apiVersion"] = "v1";
      return object;
    }
    if (path == "/apis/" + group + "/v1") return resource_list(group);
    if (path == "/openapi/v3/apis/" + group + "/v1") return openapi(group);
  }
  if (path == "/openapi/v3") return openapi_roots();
  if (path == "/openapi/v3/api/v1") return openapi("");
  return std::nullopt;
}

}  // namespace mlk::local
