// Rules and defaults that apply again when an object is changed, and fields that are removed from objects.
#include <doctest/doctest.h>

#include "cli/local/api/admit.h"
#include "cli/local/api/view.h"
#include "cli/local/state/defaults.h"
#include "cli/local/state/patch.h"
#include "tests/unit/local/api_cluster.h"

TEST_SUITE_BEGIN("local/api/admit_change");

namespace mlk::local {
namespace {

using namespace samples;
using namespace nlohmann::literals;

Admission admission_for(const char* plural) { return {kind_of(plural), "default", "the-uid", "sffix", noon}; }

json kept(const char* plural, const json& object) {
  json result = admit_new(admission_for(plural), object);
  result["metadata"]["resourceVersion"] = "7";
  return result;
}

json after_change(const char* plural, const json& before, const json& patch) {
  json after = before;
  after.merge_patch(patch);
  return admit_change(admission_for(plural), before, after, false);
}

std::string refusal_words(const std::function<void()>& action) {
  try {
    action();
  } catch (const StatusError& refusal) {
    return std::to_string(refusal.code()) + " " + refusal.what();
  }
  return "taken";
}

json defaulted(const char* plural, json object) {
  set_defaults(kind_of(plural), object);
  return object;
}

TEST_CASE("is_dns_subdomain() refuses the characters next to a, z, 0 and 9 in ASCII") {
  for (const char* good : {"a", "z", "0", "9", "az09", "z.9"}) CHECK_MESSAGE(is_dns_subdomain(good), good);
  for (const char* bad : {"a`b", "a{b", "a/b", "a:b", "`", "{", "/", ":", "aZ", "."})
    CHECK_MESSAGE(!is_dns_subdomain(bad), bad);
}

TEST_CASE("a changed object is checked by the rules for new objects, and missing fields get their defaults") {
  const json job = kept("jobs", job_named("j"));
  CHECK(after_change("jobs", job, {{"spec", {{"suspend", nullptr}}}}) == job);
  const auto refused = [](const char* plural, const json& before, const json& patch) {
    return refusal_words([&] { after_change(plural, before, patch); });
  };
  CHECK(refused("jobs", job, {{"spec", {{"parallelism", -1}}}}) ==
        "422 Job.batch \"j\" is invalid: spec.parallelism: Invalid value: -1: must be greater than or equal "
        "to 0");
  const json map = kept("configmaps", map_named("a"));
  CHECK(refused("configmaps", map, {{"data", {{"a/b", ""}}}}) ==
        "422 ConfigMap \"a\" is invalid: data[a/b]: Invalid value: a valid config key");
  CHECK(refused("configmaps", map, {{"metadata", {{"labels", {{"-", ""}}}}}}) ==
        "422 ConfigMap \"a\" is invalid: metadata.labels: Invalid value: \"-\"");
  CHECK(refused("configmaps", map, {{"metadata", {{"name", ""}}}}) ==
        "400 the name of the object () does not match the name on the URL (a)");
  CHECK(refusal_words([&] { admit_new(admission_for("jobs"), json::object()); }) ==
        "422 Job.batch \"\" is invalid: metadata.name: Required value: name or generateName is required");
}

TEST_CASE("an update of an object keeps the old status of the object") {
  json job = kept("jobs", job_named("j"));
  job["status"] = {{"active", 1}};
  CHECK(after_change("jobs", job, {{"status", {{"active", 5}}}}) == job);
  CHECK(after_change("jobs", job, {{"status", nullptr}}) == job);
  CHECK(after_change("jobs", job, {{"kind", nullptr}, {"apiVersion", nullptr}}) == job);
}

TEST_CASE("a missing generation of a Job counts as 1, and a Service has no generation") {
  json job = kept("jobs", job_named("j"));
  job["metadata"].erase("generation");
  CHECK(after_change("jobs", job, {{"spec", {{"suspend", true}}}}).at("metadata").at("generation") == 2);
  const json service = kept("services", {{"metadata", {{"name", "s"}}}, {"spec", json::object()}});
  CHECK_FALSE(after_change("services", service, {{"spec", {{"publishNotReadyAddresses", true}}}})
                  .at("metadata")
                  .contains("generation"));
}

TEST_CASE("an object without a spec gets no defaults, except the name label of a Namespace") {
  const json bare = R"({"metadata": {"name": "a", "uid": "u"}})"_json;
  for (const char* plural : {"pods", "services", "configmaps", "leases", "events", "nodes"})
    CHECK_MESSAGE(defaulted(plural, bare) == bare, plural);
  const json with_spec = R"({"metadata": {"name": "a", "uid": "u"}, "spec": {"a": 1}})"_json;
  for (const char* plural : {"leases", "nodes"})
    CHECK_MESSAGE(defaulted(plural, with_spec) == with_spec, plural);
  CHECK(defaulted("services", R"({"spec": {"ports": [{"name": "p"}]}})"_json).at("spec").at("ports") ==
        R"([{"name": "p", "protocol": "TCP", "targetPort": 0}])"_json);
  CHECK(defaulted("namespaces", R"({"metadata": {"name": "n"}, "status": {"phase": "Terminating"}})"_json) ==
        R"({"metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}},
            "status": {"phase": "Terminating"}})"_json);
}

TEST_CASE("the refusal of a Job reports each fault in the Job's containers, volumes and rules") {
  json job = job_named("j", {{"maxFailedIndexes", -1}, {"backoffLimitPerIndex", 0}});
  json& spec = job["spec"]["template"]["spec"];
  spec["containers"] = R"([{"image": "i"}, {"image": "i",
    "volumeMounts": [{"mountPath": "/m"}, {"name": "v"}], "env": [{}]}])"_json;
  spec["initContainers"] = R"([{"name": "A"}])"_json;
  spec["volumes"] = R"([{}, {}])"_json;
  job["spec"]["podFailurePolicy"] = R"({"rules": [{"onExitCodes": {}}]})"_json;
  const std::string pods_of_job = "spec.template.spec.", rules = "spec.podFailurePolicy.rules";
  std::vector<std::string> causes;
  try {
    admit_new(admission_for("jobs"), job);
  } catch (const StatusError& refusal) {
    const json status = refusal.status();
    for (const json& cause : status.at("details").at("causes"))
      causes.push_back(cause.at("field").get<std::string>() + ": " + cause.at("message").get<std::string>());
  }
  CHECK(causes ==
        std::vector<std::string>{
            "spec.maxFailedIndexes: Invalid value: -1: must be greater than or equal to 0",
            pods_of_job + "volumes.name: Duplicate value", pods_of_job + "containers[0].name: Required value",
            pods_of_job + "containers[1].name: Required value",
            pods_of_job + "containers[1].name: Duplicate value",
            pods_of_job + "containers[1].volumeMounts.name: Not found: \"v\"",
            pods_of_job + "containers[1].volumeMounts.mountPath: Required value",
            pods_of_job + "containers[1].env.name: Required value",
            pods_of_job +
                "containers: Unsupported: a pod of the local cluster is one process, it cannot have "
                "several containers",
            pods_of_job + "volumes.name: Duplicate value",
            pods_of_job + "initContainers[0].name: Invalid value: \"A\": a lowercase RFC 1123 label",
            pods_of_job + "initContainers[0].image: Required value",
            pods_of_job + "initContainers: Unsupported: a pod of the local cluster is one process, it cannot "
                          "have init containers",
            rules + ".action: Unsupported value: \"\"",
            rules + ".onExitCodes.operator: Unsupported value: \"\"",
            rules + ".onExitCodes.values: Invalid value: at least one value is required"});
  json empty = job_named("j", {{"completions", 0}});
  empty["metadata"]["name"] = std::string(62, 'j');
  CHECK(refusal_words([&] { admit_new(admission_for("jobs"), empty); })
            .ends_with("metadata.name: Invalid value: will not able to create pod with invalid DNS label: " +
                       std::string(62, 'j') + "-0"));
}

json merged_lists(const json& before, const json& patch) {
  return apply_patch("application/strategic-merge-patch+json", before, patch.dump());
}

TEST_CASE("a strategic patch replaces a whole list if the lists cannot be merged element by element") {
  const json before = R"({"env": [{"name": "a", "value": "1"}]})"_json;
  CHECK(merged_lists(before, R"({"env": []})"_json) == R"({"env": []})"_json);
  CHECK(merged_lists(before, R"({"env": [{"name": "b"}, 5]})"_json) == R"({"env": [{"name": "b"}, 5]})"_json);
  CHECK(merged_lists(before, R"({"env": [5, {"name": "b"}]})"_json) == R"({"env": [5, {"name": "b"}]})"_json);
  for (const char* odd : {R"({"env": "x"})", R"({"env": null})", R"({"env": {"a": 1}})"})
    CHECK(merged_lists(json::parse(odd),
                       R"({"env": [{"name": "b"}, {"name": "c", "$patch": "delete"}]})"_json) ==
          R"({"env": [{"name": "b"}]})"_json);
  CHECK(merged_lists(R"({"finalizers": "x"})"_json, R"({"finalizers": ["a"]})"_json) ==
        R"({"finalizers": ["a"]})"_json);
  CHECK(merged_lists(R"({"m": {"finalizers": "a"}})"_json,
                     R"({"m": {"$deleteFromPrimitiveList/finalizers": ["a"]}})"_json) ==
        R"({"m": {"finalizers": "a"}})"_json);
}

TEST_CASE(
    "a strategic patch appends elements without the merge key, and keeps old elements without this key") {
  CHECK(merged_lists(R"({"env": [{"name": "a"}]})"_json, R"({"env": [{"value": "1"}]})"_json) ==
        R"({"env": [{"name": "a"}, {"value": "1"}]})"_json);
  CHECK(merged_lists(R"({"env": [5, {"value": "1"}, {"name": "a"}]})"_json,
                     R"({"env": [{"name": "a", "value": "2"}]})"_json) ==
        R"({"env": [5, {"value": "1"}, {"name": "a", "value": "2"}]})"_json);
}

TEST_CASE("a merge patch replaces whole lists, and stores $patch as an ordinary field") {
  const auto merged = [](const json& before, const json& patch) {
    return apply_patch("application/merge-patch+json; charset=utf-8", before, patch.dump());
  };
  CHECK(merged(R"({"env": [{"name": "a", "value": "1"}], "x": {"y": 1, "z": 2}})"_json,
               R"({"env": [{"name": "b"}], "x": {"y": null, "$patch": "delete"}})"_json) ==
        R"({"env": [{"name": "b"}], "x": {"z": 2, "$patch": "delete"}})"_json);
}

TEST_CASE("a patch or body that cannot be read or applied is refused with the reason") {
  const auto reason = [](const char* type, const std::string& body) {
    try {
      apply_patch(type, json::object(), body);
    } catch (const StatusError& refusal) {
      return std::to_string(refusal.code()) + " " + refusal.reason();
    }
    return std::string("taken");
  };
  CHECK(reason("application/json-patch+json", R"([{"op": "remove", "path": "/a"}])") == "422 Invalid");
  CHECK(reason("application/xml", "{}") == "415 UnsupportedMediaType");
  CHECK(reason("application/merge-patch+json", "{") == "400 BadRequest");
  CHECK(refusal_words([] { parse_body("{"); }) == "400 the body is not JSON: byte 2");
}

TEST_CASE("the table of each kind has its own column names and types") {
  const std::pair<const char*, const char*> table[] = {
      {"pods", "Name:string Ready:string Status:string Restarts:string Age:string"},
      {"jobs", "Name:string Status:string Completions:string Duration:string Age:string"},
      {"configmaps", "Name:string Data:integer Age:string"},
      {"secrets", "Name:string Type:string Data:integer Age:string"},
      {"services", "Name:string Type:string Cluster-IP:string Age:string"},
      {"namespaces", "Name:string Status:string Age:string"},
      {"leases", "Name:string Holder:string Age:string"},
      {"nodes", "Name:string Status:string Age:string"},
      {"serviceaccounts", "Name:string Age:string"},
      {"events", "Last Seen:string Type:string Reason:string Object:string Message:string"}};
  const json object = R"({"metadata": {"name": "a"}})"_json;
  for (const auto& [plural, columns] : table) {
    std::string text;
    const json shown = show(kind_of(plural), object, View::table, noon);
    for (const json& column : shown.at("columnDefinitions")) {
      const std::string name = column.at("name");
      text += (text.empty() ? "" : " ") + name + ":" + column.at("type").get<std::string>();
      CHECK(column.at("format") == (name == "Name" ? "name" : ""));
      CHECK(column.at("description") == "");
      CHECK(column.at("priority") == 0);
    }
    CHECK(text == columns);
  }
}

}  // namespace
}  // namespace mlk::local
