// The default values of missing fields, and the rules for whole objects.
#include "cli/local/state/defaults.h"

#include <doctest/doctest.h>

#include "cli/local/state/status.h"
#include "tests/unit/local/api_cluster.h"

TEST_SUITE_BEGIN("local/state/defaults");

using namespace mlk::local;
using namespace mlk::local::samples;

namespace {

json with_defaults(const char* plural, json object) {
  set_defaults(kind_of(plural), object);
  return object;
}

json job_with_defaults(const json& spec) {
  json object = {{"metadata", {{"name", "j"}, {"uid", "u"}}}, {"spec", spec}};
  return with_defaults("jobs", object).at("spec");
}

// "FIELD: MESSAGE" of each cause, each on a line of its own.
std::string broken_rules(const char* plural, const json& object) {
  try {
    check_rules(kind_of(plural), object);
  } catch (const StatusError& refusal) {
    CHECK(refusal.code() == 422);
    const json status = refusal.status();
    std::string lines;
    for (const json& cause : status.at("details").at("causes"))
      lines += cause.at("field").get<std::string>() + ": " + cause.at("message").get<std::string>() + "\n";
    return lines;
  }
  return "";
}

std::string broken_in_job(const json& spec, const json& of_pods = json::object(),
                          const json& container = json::object(), const std::string& name = "j") {
  json object = job_named(name, spec, container);
  object["metadata"]["uid"] = "u";
  object["spec"]["template"]["spec"].merge_patch(of_pods);
  return broken_rules("jobs", with_defaults("jobs", object));
}

std::string in_container(const json& container) {
  return broken_in_job(json::object(), json::object(), container);
}

json policy_of(const json& rule) { return {{"podFailurePolicy", {{"rules", json::array({rule})}}}}; }

}  // namespace

TEST_CASE("a Job with an empty spec gets one pod and six retries") {
  const json spec = job_with_defaults(json::object());
  CHECK(spec.at("completionMode") == "NonIndexed");
  CHECK(spec.at("completions") == 1);
  CHECK(spec.at("parallelism") == 1);
  CHECK(spec.at("backoffLimit") == 6);
  CHECK(spec.at("suspend") == false);
  CHECK(spec.at("podReplacementPolicy") == "TerminatingOrFailed");
  CHECK(spec.at("selector") == R"({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})"_json);
  CHECK(spec.at("template").at("metadata").at("labels") ==
        R"({"batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "j",
            "controller-uid": "u", "job-name": "j"})"_json);
  CHECK_FALSE(spec.at("template").contains("spec"));
}

TEST_CASE("the default of a field of a Job may depend on another field") {
  CHECK(job_with_defaults({{"parallelism", 3}}).at("completions") == 3);
  CHECK(job_with_defaults({{"completions", 3}}).at("parallelism") == 1);
  CHECK(job_with_defaults({{"backoffLimitPerIndex", 1}}).at("backoffLimit") == 2147483647);
  CHECK(job_with_defaults({{"podFailurePolicy", json::object()}}).at("podReplacementPolicy") == "Failed");
  const json given = R"({"completionMode": "Indexed", "completions": 4, "parallelism": 2, "backoffLimit": 0,
                         "suspend": true, "podReplacementPolicy": "Failed",
                         "selector": {"matchLabels": {"a": "b"}}})"_json;
  json spec = job_with_defaults(given);
  spec.erase("template");
  CHECK(spec == given);
  const json labelled =
      job_with_defaults(R"({"template": {"metadata": {"labels": {"l": "1", "job-name": "x"}}}})"_json);
  CHECK(labelled.at("template").at("metadata").at("labels").at("l") == "1");
  CHECK(labelled.at("template").at("metadata").at("labels").at("job-name") == "j");
}

TEST_CASE("pods and containers get the same defaults as in Kubernetes") {
  const json spec = R"({"containers": [{"name": "a"}], "initContainers": [{"name": "b"}],
    "volumes": [{"name": "c", "configMap": {}}, {"name": "s", "secret": {}}, {"name": "h", "hostPath": {}},
                {"name": "e", "emptyDir": {}}]})"_json;
  const json container =
      R"({"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent", "resources": {}})"_json;
  json expected =
      R"({"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler", "securityContext": {}, "enableServiceLinks": true,
    "serviceAccountName": "default",
    "volumes": [{"name": "c", "configMap": {"defaultMode": 420}}, {"name": "s", "secret": {"defaultMode": 420}},
                {"name": "h", "hostPath": {"type": ""}}, {"name": "e", "emptyDir": {}}]})"_json;
  for (const auto& [list, name] : {std::pair("containers", "a"), {"initContainers", "b"}}) {
    json one = container;
    one["name"] = name;
    expected[list] = json::array({one});
  }
  CHECK(with_defaults("pods", {{"spec", spec}}).at("spec") == expected);
  // A Job must give the restart policy itself, and a pod gets the other defaults when the pod is created.
  const json of_job = job_with_defaults({{"template", {{"spec", spec}}}}).at("template").at("spec");
  for (const char* field : {"restartPolicy", "enableServiceLinks", "serviceAccountName"})
    expected.erase(field);
  CHECK(of_job == expected);
  const json never = job_with_defaults({{"template", {{"spec", {{"restartPolicy", "Never"}}}}}});
  CHECK(never.at("template").at("spec").at("restartPolicy") == "Never");
}

TEST_CASE("a container's ports, resources and variables get defaults for their missing fields") {
  const json spec =
      R"({"containers": [{"name": "a", "terminationMessagePath": "/m", "imagePullPolicy": "Never",
    "resources": {"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": 1}},
    "ports": [{"containerPort": 1}, {"containerPort": 2, "protocol": "UDP"}],
    "env": [{"name": "A", "value": "a"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}]})"_json;
  const json made = with_defaults("pods", {{"spec", spec}}).at("spec").at("containers").at(0);
  CHECK(made.at("terminationMessagePath") == "/m");
  CHECK(made.at("imagePullPolicy") == "Never");
  CHECK(made.at("resources").at("requests") == R"({"cpu": 1, "memory": "1Gi"})"_json);
  CHECK(made.at("ports") ==
        R"([{"containerPort": 1, "protocol": "TCP"}, {"containerPort": 2, "protocol": "UDP"}])"_json);
  CHECK(made.at("env").at(0) == R"({"name": "A", "value": "a"})"_json);
  CHECK(made.at("env").at(1).at("valueFrom").at("fieldRef").at("apiVersion") == "v1");
}

TEST_CASE("Services, Secrets and Namespaces get their defaults") {
  const json service =
      with_defaults("services", R"({"spec": {"selector": {"a": "b"}, "ports": [{"port": 5}]}})"_json);
  CHECK(service.at("spec").at("type") == "ClusterIP");
  CHECK(service.at("spec").at("sessionAffinity") == "None");
  CHECK(service.at("spec").at("clusterIP") == "None");
  CHECK(service.at("spec").at("clusterIPs") == json{"None"});
  CHECK(service.at("spec").at("ports").at(0) == R"({"port": 5, "protocol": "TCP", "targetPort": 5})"_json);
  CHECK(service.at("status") == R"({"loadBalancer": {}})"_json);
  const json secret =
      with_defaults("secrets", R"({"data": {"a": "YQ==", "b": "eA=="}, "stringData": {"b": "b"}})"_json);
  CHECK(secret == R"({"type": "Opaque", "data": {"a": "YQ==", "b": "Yg=="}})"_json);
  CHECK(with_defaults("secrets", R"({"type": "x/y"})"_json).at("type") == "x/y");
  CHECK(with_defaults("configmaps", json::object()).empty());
}

TEST_CASE("a Job is refused if one of its numbers is negative or too large") {
  for (const char* field : {"parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished",
                            "activeDeadlineSeconds", "backoffLimitPerIndex"}) {
    CHECK_MESSAGE(broken_in_job({{field, 0}}).empty(), field);
    CHECK_MESSAGE(
        broken_in_job({{field, -1}})
                .find(std::string("spec.") + field +
                      ": Invalid value: -1: must be greater than or equal to 0\n") != std::string::npos,
        field);
  }
  CHECK(broken_in_job({{"backoffLimit", 2147483647}}).empty());
  CHECK(broken_in_job({{"backoffLimit", 2147483648LL}})
            .starts_with("spec.backoffLimit: Invalid value: 2147483648"));
  CHECK(broken_in_job({{"completions", 100000}, {"parallelism", 100000}}).empty());
  CHECK(broken_in_job({{"completions", 100001}}) ==
        "spec.completions: Invalid value: must be at most 100000\n");
  CHECK(broken_in_job({{"parallelism", 100001}}) ==
        "spec.parallelism: Invalid value: must be at most 100000\n");
  CHECK(broken_in_job({{"backoffLimitPerIndex", 0}, {"maxFailedIndexes", 0}}).empty());
  CHECK(broken_in_job({{"maxFailedIndexes", 0}}) ==
        "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified\n");
  CHECK(
      broken_in_job({{"completionMode", "NonIndexed"}}) ==
      "spec.completionMode: Unsupported value: \"NonIndexed\": the local cluster knows \"Indexed\" alone\n");
}

TEST_CASE("a Job is refused if its name is too long for the names of its pods") {
  const std::string name(61, 'j');
  CHECK(broken_in_job({{"completions", 10}}, json::object(), json::object(), name).empty());
  CHECK(broken_in_job({{"completions", 11}}, json::object(), json::object(), name) ==
        "metadata.name: Invalid value: will not able to create pod with invalid DNS label: " + name +
            "-10\n");
  CHECK(broken_in_job({{"completions", 0}}, json::object(), json::object(), name).empty());
  CHECK_FALSE(broken_in_job({{"completions", 0}}, json::object(), json::object(), name + "j").empty());
}

TEST_CASE("an invalid container is refused, and the error has the field and the reason") {
  const std::string at = "spec.template.spec.containers[0].";
  CHECK(in_container({{"name", nullptr}}) == at + "name: Required value\n");
  CHECK(in_container({{"name", "A"}}) == at + "name: Invalid value: \"A\": a lowercase RFC 1123 label\n");
  CHECK(in_container({{"image", nullptr}}) == at + "image: Required value\n");
  CHECK(in_container({{"env", {{{"value", "x"}}}}}) == at + "env.name: Required value\n");
  CHECK(in_container({{"env", {{{"name", "A=B"}}}}}) == at + "env.name: Invalid value\n");
  const json field_ref = {{"fieldRef", {{"fieldPath", "metadata.name"}}}};
  CHECK(in_container({{"env", {{{"name", "A"}, {"value", ""}, {"valueFrom", field_ref}}}}}).empty());
  CHECK(in_container({{"env", {{{"name", "A"}, {"value", "x"}, {"valueFrom", field_ref}}}}}) ==
        at + "env.valueFrom: Invalid value: may not be specified when `value` is not empty\n");
  CHECK(in_container({{"volumeMounts", {{{"name", "none"}, {"mountPath", "/x"}}}}}) ==
        at + "volumeMounts.name: Not found: \"none\"\n");
}

TEST_CASE("an invalid volume or mount is refused, and the error has the field and the reason") {
  const std::string at = "spec.template.spec.containers[0].";
  const auto mounted = [](json mount, const json& volumes = R"([{"name": "v"}])"_json) {
    mount["name"] = "v";
    return broken_in_job(json::object(), {{"volumes", volumes}}, {{"volumeMounts", json::array({mount})}});
  };
  CHECK(mounted({{"mountPath", "/x"}}).empty());
  CHECK(mounted({}) == at + "volumeMounts.mountPath: Required value\n");
  CHECK(mounted({{"mountPath", "/x"}, {"subPath", "a/b"}}).empty());
  for (const char* bad : {"/a", "..", "a/../b"})
    CHECK_MESSAGE(mounted({{"mountPath", "/x"}, {"subPath", bad}}) ==
                      at + "volumeMounts.subPath: Invalid value: must be a relative path without '..'\n",
                  bad);
  CHECK(mounted({{"mountPath", "/x"}}, R"([{"name": "v"}, {"name": "v"}])"_json)
            .starts_with("spec.template.spec.volumes.name: Duplicate value\n"));
}

TEST_CASE("a Job is refused if its pods have several containers or restart in place") {
  const std::string at = "spec.template.spec.";
  const json two = R"([{"name": "a", "image": "i"}, {"name": "b", "image": "i"}])"_json;
  CHECK(broken_in_job(json::object(), {{"containers", two}}) ==
        at + "containers: Unsupported: a pod of the local cluster is one process, it cannot have several "
             "containers\n");
  const json twins = R"([{"name": "a", "image": "i"}, {"name": "a", "image": "i"}])"_json;
  CHECK(broken_in_job(json::object(), {{"containers", twins}})
            .starts_with(at + "containers[1].name: Duplicate value\n"));
  CHECK(broken_in_job(json::object(), {{"initContainers", R"([{"name": "a", "image": "i"}])"_json}}) ==
        at + "initContainers: Unsupported: a pod of the local cluster is one process, it cannot have init "
             "containers\n");
  CHECK(broken_in_job(json::object(), {{"restartPolicy", "OnFailure"}}) ==
        at + "restartPolicy: Unsupported value: \"OnFailure\": the local cluster knows \"Never\" alone\n");
  for (const int seconds : {1, 2147483647})
    CHECK(broken_in_job(json::object(), {{"activeDeadlineSeconds", seconds}}).empty());
  for (const long long seconds : {0LL, -1LL, 2147483648LL}) {
    CHECK(broken_in_job(json::object(), {{"activeDeadlineSeconds", seconds}}) ==
          at + "activeDeadlineSeconds: Invalid value: " + std::to_string(seconds) +
              ": must be between 1 and 2147483647, inclusive\n");
  }
  CHECK(broken_in_job(json::object(), {{"hostname", "a"}, {"subdomain", "b"}}).empty());
  CHECK(broken_in_job(json::object(), {{"hostname", "A"}}) == at + "hostname: Invalid value: \"A\"\n");
  CHECK(broken_in_job(json::object(), {{"subdomain", "a.b"}}) == at + "subdomain: Invalid value: \"a.b\"\n");
}

TEST_CASE("the error for an invalid podFailurePolicy has the invalid field and a message") {
  const std::string rules = "spec.podFailurePolicy.rules";
  const json codes = R"({"operator": "In", "values": [1]})"_json;
  const json conditions = R"([{"type": "DisruptionTarget"}])"_json;
  for (const char* action : {"FailJob", "Ignore", "Count"})
    CHECK(broken_in_job(policy_of({{"action", action}, {"onExitCodes", codes}})).empty());
  json with_limit = policy_of({{"action", "FailIndex"}, {"onExitCodes", codes}});
  CHECK(broken_in_job(with_limit) ==
        rules + ".action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set\n");
  with_limit["backoffLimitPerIndex"] = 1;
  CHECK(broken_in_job(with_limit).empty());
  CHECK(broken_in_job(policy_of({{"action", "Panic"}, {"onExitCodes", codes}})) ==
        rules + ".action: Unsupported value: \"Panic\"\n");
  CHECK(broken_in_job(policy_of({{"action", "Ignore"}, {"onPodConditions", conditions}})).empty());
  const std::string one =
      rules + ": Invalid value: specifying one of OnExitCodes and OnPodConditions is required\n";
  CHECK(broken_in_job(policy_of({{"action", "Ignore"}})) == one);
  CHECK(broken_in_job(policy_of(
            {{"action", "Ignore"}, {"onPodConditions", conditions}, {"onExitCodes", codes}})) == one);
  const auto coded = [&](const json& on) {
    return broken_in_job(policy_of({{"action", "Ignore"}, {"onExitCodes", on}}));
  };
  CHECK(coded(R"({"operator": "NotIn", "values": [0]})"_json).empty());
  CHECK(coded(R"({"operator": "In", "values": [1, 0]})"_json) ==
        rules + ".onExitCodes.values: Invalid value: 0: must not be 0 for the In operator\n");
  CHECK(coded(R"({"operator": "Is", "values": [1]})"_json) ==
        rules + ".onExitCodes.operator: Unsupported value: \"Is\"\n");
  CHECK(coded(R"({"operator": "In", "values": []})"_json) ==
        rules + ".onExitCodes.values: Invalid value: at least one value is required\n");
  CHECK(broken_in_job({{"podReplacementPolicy", "TerminatingOrFailed"},
                       {"podFailurePolicy", {{"rules", json::array()}}}}) ==
        "spec.podReplacementPolicy: Unsupported value: only Failed is allowed with podFailurePolicy\n");
}

TEST_CASE("the error for an invalid successPolicy has the invalid field and a message") {
  const auto with = [](const json& rule) {
    return broken_in_job({{"successPolicy", {{"rules", json::array({rule})}}}});
  };
  const std::string rules = "spec.successPolicy.rules";
  CHECK(with({{"succeededCount", 1}}).empty());
  CHECK(with({{"succeededIndexes", "0-2"}}).empty());
  CHECK(with(json::object()) ==
        rules + ": Required value: at least one of succeededCount or succeededIndexes must be specified\n");
  CHECK(with({{"succeededCount", 0}}) ==
        rules + ".succeededCount: Invalid value: must be greater than zero\n");
  CHECK(with({{"succeededIndexes", "x"}}) ==
        rules + ".succeededIndexes: Invalid value: error parsing succeededIndexes\n");
}

TEST_CASE("a pod or a Service without a spec is refused, and so is a Service with an address") {
  for (const char* plural : {"pods", "services"})
    CHECK_MESSAGE(broken_rules(plural, {{"metadata", {{"name", "x"}}}}) == "spec: Required value\n", plural);
  CHECK(broken_rules("configmaps", {{"metadata", {{"name", "x"}}}}).empty());
  CHECK(broken_rules("services", R"({"metadata": {"name": "x"}, "spec": {"clusterIP": "10.0.0.1"}})"_json) ==
        "spec.clusterIP: Unsupported value: the local cluster knows headless services alone (clusterIP: "
        "None)\n");
  const std::string of_pod =
      broken_rules("pods", R"({"metadata": {"name": "x"}, "spec": {"restartPolicy": "Always"}})"_json);
  CHECK(of_pod ==
        "spec.containers: Required value\n"
        "spec.restartPolicy: Unsupported value: \"Always\": the local cluster knows \"Never\" alone\n");
}
