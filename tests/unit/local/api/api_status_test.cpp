// The answers of the API to invalid requests: whole Status objects.
#include <doctest/doctest.h>

#include "tests/unit/local/api_cluster.h"

TEST_SUITE_BEGIN("local/api/api_status");

namespace mlk::local {
namespace {

using namespace samples;
using namespace nlohmann::literals;

const std::string merge_type = "application/merge-patch+json";
const std::string apply_type = "application/apply-patch+yaml";

json status_object(int code, const std::string& reason, const std::string& message,
                   const json& details = nullptr) {
  json status = {{"kind", "Status"},    {"apiVersion", "v1"}, {"metadata", json::object()},
                 {"status", "Failure"}, {"message", message}, {"reason", reason},
                 {"code", code}};
  if (!details.is_null()) status["details"] = details;
  return status;
}

json invalid_status(const std::string& kind, const std::string& name, const std::string& field,
                    const std::string& message, const std::string& reason = "FieldValueInvalid") {
  return status_object(422, "Invalid", kind + " \"" + name + "\" is invalid: " + field + ": " + message,
                       {{"name", name},
                        {"kind", kind},
                        {"causes", {{{"reason", reason}, {"message", message}, {"field", field}}}}});
}

void check_answer(Cluster& cluster, const std::string& method, const std::string& target,
                  const json& expected, const json& body = nullptr,
                  const std::string& type = "application/json") {
  CAPTURE(method);
  CAPTURE(target);
  const Answer answer = cluster.send(method, target, body, type);
  CHECK(json::parse(answer.body) == expected);
  CHECK(answer.status == expected.at("code"));
  CHECK(answer.content_type == "application/json");
  CHECK(answer.warning.empty());
  CHECK_FALSE(answer.stream);
}

TEST_CASE("an unknown path, or a method that a path does not have, is refused with the right message") {
  Cluster cluster;
  const json nowhere = status_object(404, "NotFound", "the server could not find the requested resource");
  for (const char* path : {"/",
                           "/nowhere",
                           "/api",
                           "/api/v1x/pods",
                           "/api/v2/pods/x",
                           "/apix/v1/pods",
                           "/apix/batch/v1/jobs",
                           "/api/v1",
                           "/apis/batch/v1",
                           "/apis/batch/v1x/jobs",
                           "/apis/batch/v2/jobs/x",
                           "/apis/batch/v1/pods",
                           "/api/v1/jobs",
                           "/api/v1/namespaces/default/nodes",
                           "/api/v1/namespaces/default/namespaces/x",
                           "/api/v1/pods/x",
                           "/api/v1/pods/x/log",
                           "/api/v1/namespaces/default/pods/p/log/more",
                           "/api/v1/namespaces/default/none",
                           "/apis/authorization.k8s.io/v2/selfsubjectaccessreviews"})
    check_answer(cluster, "PUT", path, nowhere);
  check_answer(cluster, "GET", "/api/v1/namespaces/default/pods/p/exec",
               status_object(404, "NotFound", "the local cluster does not serve pods/exec"));
  check_answer(cluster, "GET", "/api/v1/namespaces/default/finalize",
               status_object(404, "NotFound", "the local cluster does not serve namespaces/finalize"));
  CHECK(cluster.ask("GET", "/api/v1/namespaces/default/status") ==
        cluster.ask("GET", "/api/v1/namespaces/default"));
  check_answer(cluster, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", nowhere, json::object());
  check_answer(cluster, "PUT", maps + "/a/status", nowhere, json::object());
  check_answer(cluster, "PATCH", maps + "/a/status", nowhere, json::object(), merge_type);

  const json not_allowed = status_object(405, "MethodNotAllowed",
                                         "the server does not allow this method on the requested resource");
  for (const auto& [method, path] : {std::pair<const char*, std::string>{"POST", pods + "/p/log"},
                                     {"GET", maps + "/a/log"},
                                     {"POST", "/api/v1/nodes"},
                                     {"PATCH", "/api/v1/nodes/local"},
                                     {"DELETE", "/api/v1/namespaces/default/serviceaccounts/default"},
                                     {"POST", maps + "/a"},
                                     {"PUT", maps},
                                     {"PATCH", maps},
                                     {"HEAD", maps},
                                     {"DELETE", "/api/v1/configmaps"},
                                     {"GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"},
                                     {"GET", "/apis/authentication.k8s.io/v1/selfsubjectreviews"}})
    check_answer(cluster, method, path, not_allowed);
  CHECK(cluster.store.find("serviceaccounts", "default", "default"));
}

TEST_CASE("a body with a wrong form, kind, version or namespace is refused with the right message") {
  Cluster cluster;
  const auto bad = [](const std::string& message) { return status_object(400, "BadRequest", message); };
  check_answer(cluster, "POST", maps, bad("the body is not an object"), "[]");
  check_answer(cluster, "POST", maps, bad("the body is neither an object nor a list"), "5");
  check_answer(cluster, "PATCH", maps + "/a?fieldManager=m", bad("the body is not an object"), "[]",
               apply_type);
  json other = map_named("a");
  other["apiVersion"] = "v2";
  check_answer(cluster, "POST", maps,
               bad("the API version in the data (v2, ConfigMap) does not match the expected API version (v1, "
                   "ConfigMap)"),
               other);
  check_answer(cluster, "POST", jobs,
               bad("the API version in the data (batch/v1, Pod) does not match the expected API version "
                   "(batch/v1, Job)"),
               {{"kind", "Pod"}});
  cluster.send("POST", maps, map_named("a"));
  check_answer(cluster, "PATCH", maps + "/a",
               bad("the API version in the data (v1, Secret) does not match the expected API version (v1, "
                   "ConfigMap)"),
               {{"kind", "Secret"}}, merge_type);
  check_answer(cluster, "POST", maps,
               bad("the namespace of the provided object does not match the namespace sent on the request"),
               map_named("b", {{"metadata", {{"namespace", "other"}}}}));
  const json no_json = status_object(
      415, "UnsupportedMediaType",
      "the local cluster takes JSON only; with kubectl: kubectl create ... --dry-run=client -o yaml | "
      "kubectl apply -f -");
  for (const char* type : {"application/vnd.kubernetes.protobuf", "text/plain", "application/yaml"}) {
    check_answer(cluster, "POST", maps, no_json, map_named("b"), type);
    check_answer(cluster, "PUT", maps + "/a", no_json, map_named("a"), type);
  }
  for (const char* type : {"", "application/json", "application/json;charset=utf-8"})
    CHECK_MESSAGE(cluster.code("PUT", maps + "/a", map_named("a"), type) == 200, type);
  check_answer(cluster, "PATCH", maps + "/a",
               status_object(415, "UnsupportedMediaType",
                             "the body of the request was in an unknown format: application/json"),
               map_named("a"));
}

TEST_CASE("a nested value of the wrong type causes an error 400, not an error 500") {
  Cluster cluster;
  const json refused = cluster.ask("POST", maps, {{"metadata", "x"}});
  CHECK(refused.at("code") == 400);
  CHECK(refused.at("reason") == "BadRequest");
  const Answer odd = cluster.send("DELETE", maps + "/a", {{"propagationPolicy", 5}});
  CHECK(odd.status == 400);
  CHECK(json::parse(odd.body).at("code") == 400);
}

TEST_CASE("the answer to an internal error has the status 500, and a message that says what failed") {
  Cluster cluster;
  std::filesystem::remove_all(cluster.folder.path() / "objects" / "configmaps");
  write_text(cluster.folder.path() / "objects" / "configmaps", "no folder");
  const Answer answer = cluster.send("POST", maps, map_named("a"));
  CHECK(answer.status == 500);
  const json status = json::parse(answer.body);
  const std::string message = status.at("message");
  CHECK(message.starts_with("Internal error occurred: "));
  CHECK(message.size() > 30);
  CHECK(status == status_object(500, "InternalError", message));
}

TEST_CASE("an invalid option of a request is refused with the right message") {
  Cluster cluster;
  cluster.send("POST", maps, map_named("a"));
  const std::string unsupported = "FieldValueNotSupported";
  for (const char* method : {"POST", "PUT", "DELETE"}) {
    const std::string path = method == std::string("POST") ? maps : maps + "/a";
    check_answer(cluster, method, path + "?dryRun=Some",
                 invalid_status("Options", "", "dryRun",
                                "Unsupported value: \"Some\": supported values: \"All\"", unsupported),
                 map_named("a"));
  }
  check_answer(cluster, "DELETE", maps + "?dryRun=all",
               invalid_status("Options", "", "dryRun",
                              "Unsupported value: \"all\": supported values: \"All\"", unsupported));
  check_answer(cluster, "DELETE", maps + "/a",
               invalid_status("Options", "", "dryRun", "Unsupported value: \"?\": supported values: \"All\"",
                              unsupported),
               {{"dryRun", {1}}});
  check_answer(cluster, "POST", maps + "?fieldValidation=strict",
               invalid_status("Options", "", "fieldValidation", "Unsupported value: \"strict\"", unsupported),
               map_named("b"));
  for (const auto& [query, body] : {std::pair("?propagationPolicy=Later", json()),
                                    {"", json{{"propagationPolicy", "Later"}}},
                                    {"?propagationPolicy=Later", json{{"propagationPolicy", "Orphan"}}}})
    check_answer(
        cluster, "DELETE", maps + "/a" + query,
        invalid_status("DeleteOptions", "", "propagationPolicy", "Unsupported value: \"Later\"", unsupported),
        body);
  for (const char* value : {"-1", "x", "1x", "1234567890", "1.5"})
    check_answer(cluster, "DELETE", maps + "/a?gracePeriodSeconds=" + value,
                 status_object(400, "BadRequest", "invalid gracePeriodSeconds"));
  check_answer(cluster, "PATCH", maps + "/a",
               invalid_status("PatchOptions", "", "fieldManager",
                              "Required value: is required for apply patch", "FieldValueRequired"),
               map_named("a"), apply_type);
  CHECK(cluster.code("GET", maps + "/a") == 200);
}

TEST_CASE("a number in a query must be whole and must not be negative") {
  Cluster cluster;
  for (const std::string name : {"limit", "resourceVersion"}) {
    for (const std::string value : {"-1", "x", "5x", "1.5", "99999999999999999999999"})
      check_answer(cluster, "GET", maps + "?" + name + "=" + value,
                   status_object(400, "BadRequest", "invalid value for " + name + ": \"" + value + "\""));
    CHECK(cluster.code("GET", maps + "?" + name + "=0") == 200);
  }
  for (const char* name : {"timeoutSeconds", "resourceVersion"})
    check_answer(cluster, "GET", maps + "?watch=1&" + name + "=-5",
                 status_object(400, "BadRequest", std::string("invalid value for ") + name + ": \"-5\""));
}

TEST_CASE("a list is refused with the right message if its continue token or version is invalid") {
  Cluster cluster;
  const json not_valid = status_object(400, "BadRequest", "continue key is not valid");
  // In this order: no base64, no JSON, no object; a missing, negative or textual version; a missing or wrong
  // name.
  for (const char* token :
       {"!", "bm90aGluZw==", "W10=", "eyJhZnRlciI6IngifQ==", "eyJydiI6LTEsImFmdGVyIjoieCJ9",
        "eyJydiI6IjEiLCJhZnRlciI6IngifQ==", "eyJydiI6MX0=", "eyJydiI6MSwiYWZ0ZXIiOjF9"})
    check_answer(cluster, "GET", maps + "?continue=" + token, not_valid);
  check_answer(cluster, "GET", maps + "?continue=eyJydiI6MCwiYWZ0ZXIiOiJ4In0=",
               status_object(410, "Expired", "The provided continue parameter is too old"));
  const std::uint64_t revision = cluster.store.revision();
  const std::string current = std::to_string(revision), next = std::to_string(revision + 1);
  check_answer(cluster, "GET", maps + "?resourceVersion=" + next,
               status_object(504, "Timeout", "Too large resource version: " + next + ", current: " + current,
                             R"({"causes": [{"reason": "ResourceVersionTooLarge",
                                             "message": "Too large resource version"}],
                                 "retryAfterSeconds": 1})"_json));
  CHECK(cluster.code("GET", maps + "?resourceVersion=" + current) == 200);
}

TEST_CASE("a watch or a deletion with an invalid selector is refused") {
  Cluster cluster;
  check_answer(cluster, "GET", maps + "?watch=true&labelSelector=a b",
               status_object(400, "BadRequest", "unable to parse requirement: \"a b\""));
  check_answer(cluster, "GET", pods + "?watch=true&fieldSelector=spec.x=1",
               status_object(400, "BadRequest", "field label not supported: spec.x"));
  check_answer(cluster, "DELETE", maps + "?labelSelector=a b",
               status_object(400, "BadRequest", "unable to parse requirement: \"a b\""));
}

TEST_CASE("a request gets 406, and has no effect, if it accepts only media types that the server lacks") {
  Cluster cluster;
  cluster.send("POST", maps, map_named("a"));
  const json expected =
      status_object(406, "NotAcceptable", "only the following media types are accepted: application/json");
  const struct {
    const char* method;
    std::string target;
    json body;
    std::string type;
  } table[] = {{"GET", "/version", nullptr, ""},
               {"GET", "/api/v1", nullptr, ""},
               {"GET", maps, nullptr, ""},
               {"GET", maps + "?watch=1", nullptr, ""},
               {"GET", maps + "/a", nullptr, ""},
               {"POST", maps, map_named("b"), "application/json"},
               {"PUT", maps + "/a", map_named("a", {{"data", {{"k", "w"}}}}), "application/json"},
               {"PATCH", maps + "/a", {{"data", {{"k", "w"}}}}, merge_type}};
  for (const auto& row : table) {
    CAPTURE(row.target);
    const Answer answer = cluster.send(row.method, row.target, row.body, row.type, "text/html");
    CHECK(answer.status == 406);
    CHECK(json::parse(answer.body) == expected);
  }
  CHECK(names(cluster.ask("GET", maps)) == std::vector<std::string>{"a"});
  CHECK(cluster.ask("GET", maps + "/a").at("data").at("k") == "v");
}

TEST_CASE("the server creates nothing in a namespace that is being deleted") {
  Cluster cluster;
  cluster.send("POST", "/api/v1/namespaces", {{"metadata", {{"name", "team"}}}});
  cluster.send("DELETE", "/api/v1/namespaces/team");
  check_answer(cluster, "POST", "/api/v1/namespaces/team/configmaps",
               status_object(403, "Forbidden",
                             "unable to create new content in namespace team because it is being terminated"),
               map_named("a"));
  check_answer(cluster, "POST", "/api/v1/namespaces/none/configmaps",
               status_object(404, "NotFound", "namespaces \"none\" not found",
                             {{"name", "none"}, {"kind", "namespaces"}}),
               map_named("a"));
}

TEST_CASE("/healthz, /livez and /readyz answer GET and HEAD with the plain text ok") {
  Cluster cluster;
  for (const char* path : {"/healthz", "/livez", "/readyz"}) {
    for (const char* method : {"GET", "HEAD"}) {
      const Answer answer = cluster.send(method, path);
      CHECK(answer.status == 200);
      CHECK(answer.content_type == "text/plain");
      CHECK(answer.body == "ok");
    }
  }
  CHECK(cluster.code("GET", "/healthz/etcd") == 404);
}

TEST_CASE("discovery documents are served with and without a trailing slash, and only for GET") {
  Cluster cluster;
  CHECK(cluster.ask("GET", "/api/") == cluster.ask("GET", "/api"));
  CHECK(cluster.ask("GET", "/apis/batch/v1/").at("kind") == "APIResourceList");
  CHECK(cluster.code("POST", "/version", json::object()) == 404);
}

TEST_CASE("the answer to a review has the kind of the review and the spec of the request") {
  Cluster cluster;
  const std::string access = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
  const json asked = {{"apiVersion", "x"}, {"kind", "x"}, {"spec", {{"a", 1}}}};
  json answered = R"({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                      "spec": {"a": 1}, "status": {"allowed": true}})"_json;
  CHECK(cluster.ask("POST", access, asked) == answered);
  CHECK(cluster.code("POST", access, asked) == 201);
  answered.erase("spec");
  CHECK(cluster.ask("POST", access, "k8s...", "application/vnd.kubernetes.protobuf") == answered);
  CHECK(cluster.code("POST", access, "k8s...") == 400);
  CHECK(cluster.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", json::object()) ==
        R"({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "status":
            {"incomplete": false,
             "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
             "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}})"_json);
  CHECK(cluster.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", json::object()) ==
        R"({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "status":
            {"userInfo": {"username": "local", "groups": ["system:authenticated"]}}})"_json);
}

TEST_CASE("Request, Answer and WatchOptions have the right default values") {
  const Request request;
  CHECK(request.method == "GET");
  CHECK(request.content_type == "application/json");
  CHECK(request.accept == "application/json");
  CHECK(request.parameter("x").empty());
  CHECK_FALSE(request.flag("x"));
  Request asked;
  asked.query = {{"a", "true"}, {"b", "1"}, {"c", "yes"}, {"d", ""}, {"e", "0"}};
  CHECK(asked.parameter("c") == "yes");
  for (const char* name : {"a", "b"}) CHECK(asked.flag(name));
  for (const char* name : {"c", "d", "e"}) CHECK_FALSE(asked.flag(name));
  const Answer answer;
  CHECK(answer.status == 200);
  CHECK(answer.content_type == "application/json");
  const WatchOptions options;
  CHECK(options.timeout == std::chrono::hours(1));
  CHECK_FALSE(options.bookmarks);
  CHECK_FALSE(options.initial_events);
  CHECK(options.view == View::object);
}

}  // namespace
}  // namespace mlk::local
