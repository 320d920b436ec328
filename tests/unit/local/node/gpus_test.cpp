// The GPUs of this machine, and the GPUs that pods get.
#include "cli/local/node/gpus.h"

#include <doctest/doctest.h>

#include "tests/unit/local/kubelet_node.h"

TEST_SUITE_BEGIN("local/node/gpus");

using namespace mlk::local;
using namespace mlk::local::samples;
using nlohmann::json;

namespace {

using Names = std::vector<std::string>;

json asking(const std::string& name, const std::string& amount) {
  json pod =
      json::parse(R"({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default"}, "spec": {
      "containers": [{"name": "main", "image": "i", "command": ["work"]}]}})");
  pod["metadata"]["name"] = pod["metadata"]["uid"] = name;
  if (amount != "0") pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = amount;
  return pod;
}

// A node with three GPUs.
struct Machine {
  Folder folder;
  Paths paths{folder.path()};
  Store store{paths.objects()};
  PodLogs logs{paths.pods()};
  Kubelet kubelet{store,
                  logs,
                  paths,
                  Node::program(folder.path(), "while [ -d \"$3\" ]; do sleep 0.05; done"),
                  {"0", "2", "GPU-7"}};
  mlk::Time now = noon;

  void step() {
    now += std::chrono::seconds(1);
    kubelet.step(now, false);
  }
  std::string gpus(const std::string& pod) { return gpus_of(*store.find("pods", "default", pod)); }
  bool waits(const std::string& pod) {
    return !store.find("pods", "default", pod)->at("spec").contains("nodeName");
  }
  void end(const std::string& pod) {
    PodFolder(paths.pods() / pod).write(Exit{0, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:05Z", "", ""});
    kubelet.notice(pod);
    step();
  }
  std::string variable(const std::string& pod) {
    const auto start = PodFolder(paths.pods() / pod).start();
    for (const auto& [name, value] : start->env) {
      if (name == "CUDA_VISIBLE_DEVICES") return value;
    }
    return "none";
  }
};

}  // namespace

TEST_CASE("visible_gpus() reads CUDA_VISIBLE_DEVICES as CUDA does") {
  CHECK(visible_gpus(0, {}).empty());
  CHECK(visible_gpus(3, {}) == Names{"0", "1", "2"});
  CHECK(visible_gpus(3, "").empty());
  CHECK(visible_gpus(3, "2, 0") == Names{"2", "0"});
  CHECK(visible_gpus(3, "1,3,0") == Names{"1"});
  CHECK(visible_gpus(3, "-1,0").empty());
  CHECK(visible_gpus(3, "1,x") == Names{"1"});
  CHECK(visible_gpus(3, "GPU-4a,MIG-5") == Names{"GPU-4a", "MIG-5"});
  CHECK(visible_gpus(3, "1,1").empty());
  CHECK(visible_gpus(3, "99999999999999999999").empty());
  CHECK(visible_gpus(0, "0,GPU-4a").empty());
}

TEST_CASE("a pod gets GPUs that no other pod has, and waits if too few are free") {
  Machine machine;
  machine.store.create("pods", asking("a", "1"));
  machine.store.create("pods", asking("b", "2"));
  machine.store.create("pods", asking("c", "2"));
  machine.store.create("pods", asking("d", "0"));
  machine.step();
  machine.step();
  CHECK(machine.gpus("a") == "0");
  CHECK(machine.gpus("b") == "2,GPU-7");
  CHECK(machine.waits("c"));
  CHECK(machine.variable("a") == "0");
  CHECK(machine.variable("b") == "2,GPU-7");
  CHECK(machine.variable("d").empty());  // this pod sees no GPU, like a pod without a device on a cluster
  machine.end("a");
  machine.step();
  CHECK(machine.waits("c"));
  machine.end("b");
  machine.step();
  machine.step();
  CHECK(machine.gpus("c") == "0,2");
  CHECK(machine.variable("c") == "0,2");
}

TEST_CASE("each pod still has its GPUs after a restart of the server") {
  Machine machine;
  machine.store.create("pods", asking("a", "2"));
  machine.step();
  machine.store.create("pods", asking("b", "2"));
  Kubelet later(machine.store, machine.logs, machine.paths, "/nonexistent/mlk", {"0", "2", "GPU-7"});
  later.step(machine.now, false);
  CHECK(machine.gpus("a") == "0,2");
  CHECK(machine.waits("b"));
}

TEST_CASE("a pod gets no GPUs from an annotation that its client has set") {
  Machine machine;
  json pod = asking("a", "0");
  pod["metadata"]["annotations"]["mlk.dev/gpus"] = "0,2";
  machine.store.create("pods", pod);
  machine.step();
  machine.step();
  CHECK(machine.variable("a").empty());
}

TEST_CASE("a pod that sets CUDA_VISIBLE_DEVICES keeps its own value") {
  Machine machine;
  json pod = asking("a", "1");
  pod["spec"]["containers"][0]["env"] = {{{"name", "CUDA_VISIBLE_DEVICES"}, {"value", "none"}}};
  machine.store.create("pods", pod);
  machine.step();
  machine.step();
  CHECK(machine.variable("a") == "none");
}
