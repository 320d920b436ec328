// Where the values of a container's environment come from.
#include "cli/local/node/pod_values.h"

#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/local/node/localise.h"

TEST_SUITE_BEGIN("local/node/pod_values");

using namespace mlk::local;
using nlohmann::json;

namespace {

const json pod_of_fields =
    R"({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a/b.c": "l"},
  "annotations": {"x": "an"}}, "spec": {"serviceAccountName": "me", "containers": [{"name": "main", "command": ["c"]}]}})"_json;

struct Sources {
  std::map<std::string, json> objects = {
      {"configmaps/c",
       R"({"kind": "ConfigMap", "data": {"k": "v", "j": "w"}, "binaryData": {"b": "YmluYXJ5"}})"_json},
      {"secrets/s", R"({"kind": "Secret", "data": {"k": "c2VjcmV0", "p": "L2RhdGE="}})"_json}};

  PodContext file_context() {
    PodContext around;
    around.pod_folder = "/pods/u";
    around.claims = "/claims";
    around.inherited = {{"PATH", "/bin"}};
    around.find = [this](const std::string& plural, const std::string& name) -> const json* {
      const auto found = objects.find(plural + "/" + name);
      return found == objects.end() ? nullptr : &found->second;
    };
    around.address_of = [](const std::string& host) { return "<" + host + ">"; };
    return around;
  }
};

// The environment of a container as "NAME=VALUE;...", or the reason why the container waits.
std::string environment_of(const char* container) {
  json pod = pod_of_fields;
  pod["spec"]["containers"][0].update(json::parse(container));
  Sources sources;
  try {
    std::string text;
    for (const auto& [name, value] : localise(pod, sources.file_context()).env) {
      if (name != "PATH" && name != "HOSTNAME") text += name + "=" + value + ";";
    }
    return text;
  } catch (const WaitingReason& obstacle) {
    return obstacle.reason() + ": " + obstacle.what();
  }
}

}  // namespace

TEST_CASE("pod_field() reads a field of a pod by its path, as in Kubernetes") {
  const auto field_of = [](const std::string& path) {
    return pod_field(pod_of_fields, path, "1.2.3.4").value_or("(unknown)");
  };
  const std::pair<const char*, const char*> table[] = {{"metadata.name", "p"},
                                                       {"metadata.namespace", "ns"},
                                                       {"metadata.uid", "u"},
                                                       {"metadata.labels['a/b.c']", "l"},
                                                       {"metadata.labels['none']", ""},
                                                       {"metadata.annotations['x']", "an"},
                                                       {"metadata.annotations['a/b.c']", ""},
                                                       {"spec.nodeName", "local"},
                                                       {"spec.serviceAccountName", "me"},
                                                       {"status.podIP", "1.2.3.4"},
                                                       {"status.podIPs", "1.2.3.4"},
                                                       {"status.hostIP", "127.0.0.1"},
                                                       {"status.hostIPs", "127.0.0.1"},
                                                       {"metadata.labels", "(unknown)"},
                                                       {"metadata.generateName", "(unknown)"},
                                                       {"status.phase", "(unknown)"},
                                                       {"", "(unknown)"},
                                                       {"metadata.labels['x'", "(unknown)"}};
  for (const auto& [path, value] : table) CHECK_MESSAGE(field_of(path) == value, path);
  json bare = pod_of_fields;
  bare["spec"].erase("serviceAccountName");
  CHECK(pod_field(bare, "spec.serviceAccountName", "") == "default");
}

TEST_CASE("resource_field() divides an amount by its divisor and rounds up") {
  const json container =
      R"({"resources": {"limits": {"cpu": "1500m", "memory": "1000001"}, "requests": {"cpu": 1}}})"_json;
  const auto resource = [&](const char* reference) {
    return resource_field(container, json::parse(reference)).value_or("(unknown)");
  };
  CHECK(resource(R"({"resource": "limits.cpu"})") == "2");
  CHECK(resource(R"({"resource": "limits.cpu", "divisor": "1m"})") == "1500");
  CHECK(resource(R"({"resource": "limits.memory", "divisor": "1M"})") == "2");
  CHECK(resource(R"({"resource": "limits.memory", "divisor": 0})") == "1000001");
  CHECK(resource(R"({"resource": "limits.memory", "divisor": "x"})") == "1000001");
  CHECK(resource(R"({"resource": "requests.cpu"})") == "1");
  CHECK(resource(R"({"resource": "requests.memory"})") == "0");
  for (const char* bad : {R"({"resource": "cpu"})", R"({"resource": "other.cpu"})", "{}"})
    CHECK(resource(bad) == "(unknown)");
  const json bare = json::object();
  CHECK(resource_field(bare, R"({"resource": "limits.cpu"})"_json) ==
        std::to_string(std::thread::hardware_concurrency()));
  CHECK(resource_field(bare, R"({"resource": "requests.cpu"})"_json) == "0");
  CHECK_FALSE(resource_field(R"({"resources": {"limits": {"cpu": "x"}}})"_json,
                             R"({"resource": "limits.cpu"})"_json));
}

TEST_CASE("data_of() decodes the data of a Secret, and the binary data of a ConfigMap") {
  const Sources sources;
  CHECK(data_of(sources.objects.at("configmaps/c")) ==
        std::map<std::string, std::string>{{"k", "v"}, {"j", "w"}, {"b", "binary"}});
  CHECK(data_of(sources.objects.at("secrets/s")) ==
        std::map<std::string, std::string>{{"k", "secret"}, {"p", "/data"}});
  CHECK(data_of(json::object()).empty());
}

TEST_CASE("envFrom adds all keys of a ConfigMap or Secret, and the later value of a variable wins") {
  CHECK(
      environment_of(
          R"({"envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}]})") ==
      "P_b=binary;P_j=w;P_k=v;k=secret;p=/data;");
  CHECK(environment_of(R"~({"envFrom": [{"configMapRef": {"name": "c"}}],
                            "env": [{"name": "k", "value": "own $(j)"}]})~") == "b=binary;j=w;k=own w;");
  CHECK(environment_of(R"~({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"},
                                    {"name": "C", "value": "3"}, {"name": "A", "value": "2"}]})~") ==
        "A=2;B=1$(C);C=3;");
  CHECK(environment_of(R"({"env": [{"name": "A"}]})") == "A=;");
  CHECK(
      environment_of(
          R"({"env": [{"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}}]})") ==
      "CPU=0;");
}

TEST_CASE("a mount path in a variable is replaced by a folder, unless the value is from a Secret") {
  const char* mounted = R"(, "volumeMounts": [{"name": "v", "mountPath": "/data"}]})";
  const auto with_volume = [&](const std::string& env) {
    json pod = pod_of_fields;
    pod["spec"]["volumes"] = R"([{"name": "v", "emptyDir": {}}])"_json;
    pod["spec"]["containers"][0].update(json::parse("{\"env\": " + env + mounted));
    Sources sources;
    return localise(pod, sources.file_context()).env.back();
  };
  const std::string from_secret =
      R"({"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "p"}}})";
  CHECK(with_volume("[" + from_secret + "]").second == "/data");
  CHECK(with_volume("[" + from_secret + R"(, {"name": "S", "value": "/data"}])").second ==
        "/pods/u/volumes/v");
}

TEST_CASE("a container waits if a ConfigMap or Secret is missing or lacks a key") {
  CHECK(environment_of(R"({"envFrom": [{"configMapRef": {"name": "x"}}]})") ==
        "CreateContainerConfigError: configmap \"x\" not found");
  CHECK(environment_of(R"({"envFrom": [{"secretRef": {"name": "x"}}]})") ==
        "CreateContainerConfigError: secret \"x\" not found");
  CHECK(environment_of(R"({"envFrom": [{"secretRef": {"name": "x", "optional": true}}]})") == "");
  const auto key = [](const char* reference) {
    return environment_of(
        (std::string(R"({"env": [{"name": "A", "valueFrom": )") + reference + "}]}").c_str());
  };
  CHECK(key(R"({"configMapKeyRef": {"name": "c", "key": "x"}})") ==
        "CreateContainerConfigError: couldn't find key x in ConfigMap ns/c");
  CHECK(key(R"({"secretKeyRef": {"name": "s", "key": "x"}})") ==
        "CreateContainerConfigError: couldn't find key x in Secret ns/s");
  CHECK(key(R"({"secretKeyRef": {"name": "s", "key": "x", "optional": true}})") == "");
  CHECK(key(R"({"configMapKeyRef": {"name": "x", "key": "k"}})") ==
        "CreateContainerConfigError: configmap \"x\" not found");
  CHECK(key(R"({"fieldRef": {"fieldPath": "spec.x"}})") ==
        "CreateContainerConfigError: unsupported fieldPath: spec.x");
  CHECK(key(R"({"resourceFieldRef": {"resource": "x"}})") ==
        "CreateContainerConfigError: unsupported resourceFieldRef in A");
  CHECK(key(R"({"fileKeyRef": {}})") ==
        "CreateContainerConfigError: unsupported source of the environment variable A");
}
