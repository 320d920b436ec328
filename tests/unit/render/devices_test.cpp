// How devices change a pod: a volume at /dev/shm, and the variable NVIDIA_VISIBLE_DEVICES.
#include "cli/render/devices.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/unit/render/golden.h"

TEST_SUITE_BEGIN("render/devices");

namespace mlk {
namespace {

using nlohmann::json;

// The pod of the first role; with `last`, the pod of the last role.
json pod_of(const std::string& text, bool last = false) {
  const Rendered run = render(test::load(text), {}, Templates(), {});
  const auto is_job = [](const json& object) { return object["kind"] == "Job"; };
  const json job = last ? run.objects.back() : *std::find_if(run.objects.begin(), run.objects.end(), is_job);
  return job["spec"]["template"]["spec"];
}

json entry(const json& list, const char* key, const std::string& value) {
  for (const json& each : list) {
    if (each[key] == value) return each;
  }
  return nullptr;
}

json visible_devices(const json& pod) {
  return entry(pod["containers"][0]["env"], "name", "NVIDIA_VISIBLE_DEVICES");
}

json shared_memory(const json& pod) {
  const json& container = pod["containers"][0];
  return container.contains("volumeMounts") ? entry(container["volumeMounts"], "mountPath", "/dev/shm")
                                            : json();
}

constexpr char run[] = "name: x\nmode: single\nrun: a\n";

TEST_CASE("a pod with a GPU has a volume at /dev/shm, and any other pod has NVIDIA_VISIBLE_DEVICES=void") {
  for (const std::string program : {"train: {data: {path: /d}, steps: 1}\n", "run: a\n"}) {
    const std::string text = "name: x\nmode: ps\n" + program + "workers: {gpu: 1}\n";
    const json server = pod_of(text), worker = pod_of(text, true);
    CHECK(visible_devices(server)["value"] == "void");
    CHECK(shared_memory(server).is_null());
    CHECK(visible_devices(worker).is_null());
    CHECK(shared_memory(worker)["name"] == "mlk-shm");
    CHECK(entry(worker["volumes"], "name", "mlk-shm")["emptyDir"] == json{{"medium", "Memory"}});
  }
  const json both = pod_of("name: x\nmode: ps\nrun: a\nservers: {gpu: 1}\n");
  CHECK(visible_devices(both).is_null());
  CHECK_FALSE(shared_memory(both).is_null());
}

TEST_CASE("mlk does not change /dev/shm or NVIDIA_VISIBLE_DEVICES if the experiment or its patch sets them") {
  CHECK(visible_devices(pod_of(std::string(run) + "env: {NVIDIA_VISIBLE_DEVICES: all}\n"))["value"] == "all");
  const std::string own =
      "workers: {gpu: 1}\n"
      "patch: {pod: {spec: {volumes: [{name: own, emptyDir: {medium: Memory, sizeLimit: 1Gi}}],\n"
      "  containers: [{name: main, volumeMounts: [{name: own, mountPath: /dev/shm}]}]}}}\n";
  const json pod = pod_of(run + own);
  CHECK(shared_memory(pod)["name"] == "own");
  CHECK(entry(pod["volumes"], "name", "mlk-shm").is_null());
}

TEST_CASE("a pod whose patch asks for a device is treated like a pod with a GPU") {
  const std::string patch = "patch: {pod: {spec: {containers: [{name: main, resources: RESOURCES}]}}}\n";
  for (const std::string resources : {"{limits: {nvidia.com/mig-1g.10gb: 1}}",
                                      "{limits: {example.org/gpu-memory: 4}}", "{claims: [{name: gpu}]}"}) {
    const json pod = pod_of(run + std::string(patch).replace(patch.find("RESOURCES"), 9, resources));
    CHECK(visible_devices(pod).is_null());
    CHECK_FALSE(shared_memory(pod).is_null());
  }
}

TEST_CASE("fit_to_devices() does not change the parts of an invalid pod that it cannot read") {
  for (const char* text :
       {R"({})", R"({"spec": []})", R"({"spec": {"containers": null}})",
        R"({"spec": {"containers": ["main", 1]}})", R"({"spec": {"containers": [{"name": "side"}]}})",
        R"({"spec": {"containers": [{"name": "main", "env": "a"}]}})",
        R"({"spec": {"containers": [{"name": "main", "env": [], "volumeMounts": {"a": 1},
            "resources": {"limits": {"a.b/c": 1}}}]}})"}) {
    json pod = json::parse(text);
    fit_to_devices(pod);
    CHECK(pod == json::parse(text));
  }
  json pod =
      json::parse(R"({"spec": {"containers": [{"name": "main", "resources": {"limits": 4}, "env": [7]}]}})");
  fit_to_devices(pod);
  CHECK(visible_devices(
            json{{"containers", {{{"env", {pod["spec"]["containers"][0]["env"][1]}}}}}})["value"] == "void");
}

}  // namespace
}  // namespace mlk
