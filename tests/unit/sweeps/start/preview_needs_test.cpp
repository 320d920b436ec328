// Tests edge cases of the needs of trials, and of the room for trials in quotas and on nodes.
#include <doctest/doctest.h>

#include "sweeps/start/preview.h"

TEST_SUITE_BEGIN("sweeps/start/preview_needs");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

json container_with(const json& requests, const json& limits) {
  return {{"resources", {{"requests", requests}, {"limits", limits}}}};
}

json job_of(const json& containers, const json& parallelism = nullptr) {
  json job = {{"kind", "Job"}, {"spec", {{"template", {{"spec", {{"containers", containers}}}}}}}};
  if (!parallelism.is_null()) job["spec"]["parallelism"] = parallelism;
  return job;
}

PodNeed needs_of(const json& job) {
  Rendered rendered;
  rendered.objects = {json{{"kind", "Service"}, {"spec", json::object()}}, job};
  const TrialNeed need = need_of(rendered);
  REQUIRE(need.pods.size() == 1);
  return need.pods[0];
}

PodNeed small_pod(double cpu) {
  PodNeed out;
  out.requests = {{"cpu", cpu}};
  return out;
}

json small_node(const std::string& name, const json& cpu) {
  return {{"metadata", {{"name", name}, {"labels", {{"disk", "fast"}}}}},
          {"status", {{"allocatable", {{"cpu", cpu}, {"pods", "110"}}}}}};
}

json small_quota(const json& hard, const json& used = nullptr) {
  json out = {{"metadata", {{"name", "team"}}}, {"status", {{"hard", hard}}}};
  if (!used.is_null()) out["status"]["used"] = used;
  return out;
}

json working_pod(const std::string& node, const std::string& phase) {
  return {{"spec", {{"nodeName", node}, {"containers", {container_with({{"cpu", "1"}}, json::object())}}}},
          {"status", {{"phase", phase}}}};
}

// The number of trials with one pod each that fit on a node with this taint.
int fit_on(const json& taint, const json& tolerations) {
  TrialNeed need{{small_pod(1)}};
  need.pods[0].tolerations = tolerations;
  json node = small_node("a", "1");
  node["spec"]["taints"] = json::array({taint});
  return room_on_nodes({node}, {}, need, 9).trials;
}

}  // namespace

TEST_CASE("a pod needs the sum of its containers' requests, or a limit if a request is missing") {
  const PodNeed pod = needs_of(
      job_of({container_with({{"cpu", "500m"}}, {{"cpu", "2"}, {"memory", "1Gi"}, {"amd.com/gpu", 1}}),
              container_with({{"cpu", "250m"}, {"memory", "1Mi"}}, json::object())},
             3));
  CHECK(pod.count == 3);
  CHECK(pod.requests == Amounts{{"cpu", 0.75}, {"memory", 1024.0 * 1048576 + 1048576}, {"amd.com/gpu", 1}});
  CHECK(pod.limits == Amounts{{"cpu", 2}, {"memory", 1024.0 * 1048576}, {"amd.com/gpu", 1}});
  CHECK(pod.node_labels.empty());
  CHECK(needs_of(job_of(json::array({json::object()}))).count == 1);
}

TEST_CASE("the needs of a pod include the node selector and the tolerations of the pod") {
  json job = job_of(json::array({json::object()}));
  job["spec"]["template"]["spec"]["nodeSelector"] = {{"disk", "fast"}, {"odd", 3}};
  job["spec"]["template"]["spec"]["tolerations"] = {{{"key", "k"}}};
  const PodNeed pod = needs_of(job);
  CHECK(pod.node_labels == std::map<std::string, std::string>{{"disk", "fast"}});
  CHECK(pod.tolerations == json{{{"key", "k"}}});
}

TEST_CASE("the needs of a trial are the sum over all its pods, with GPUs of every vendor") {
  PodNeed workers = small_pod(2), server = small_pod(1);
  workers.count = 3;
  workers.requests["nvidia.com/gpu"] = 2;
  server.requests["amd.com/gpu"] = 1;
  server.requests["nvidia.com/gpumem"] = server.requests["example.com/vgpu"] = 50;
  const TrialNeed need{{workers, server}};
  CHECK(need.pod_count() == 4);
  CHECK(need.requested("cpu") == 7);
  CHECK(need.requested("memory") == 0);
  CHECK(need.gpus() == 7);
  const Cost cost = cost_of({{need, 2}, {{{server}}, 1}}, 30, 0);
  CHECK(cost.cpu_hours == doctest::Approx((2 * 7 + 1) / 2.0));
  CHECK(cost.gpu_hours == doctest::Approx((2 * 7 + 1) / 2.0));
  CHECK(cost.hours == doctest::Approx(1.5));  // one trial at a time
  CHECK(cost_of({}, 30, 2).hours == 0);
}

TEST_CASE("room_in_quotas() reads requests.cpu, limits.cpu, cpu, pods and similar resources of a quota") {
  PodNeed pod = small_pod(2);
  pod.count = 2;
  pod.requests["memory"] = 1048576;
  pod.requests["amd.com/gpu"] = 1;
  pod.limits = {{"cpu", 4}};
  const auto room = [&](const char* resource, const char* hard) {
    const auto found = room_in_quotas({small_quota({{resource, hard}})}, {{pod}}, 9);
    return found ? found->trials : -1;
  };
  CHECK(room("cpu", "9") == 2);
  CHECK(room("requests.cpu", "9") == 2);
  CHECK(room("limits.cpu", "9") == 1);
  CHECK(room("memory", "7Mi") == 3);
  CHECK(room("requests.memory", "7Mi") == 3);
  CHECK(room("pods", "5") == 2);
  CHECK(room("count/pods", "5") == 2);
  CHECK(room("requests.amd.com/gpu", "5") == 2);
  CHECK(room("amd.com/gpu", "5") == -1);
  CHECK(room("limits.memory", "0") == -1);
  CHECK(room("count/jobs.batch", "0") == -1);
  const auto full = room_in_quotas({small_quota({{"cpu", "36"}}, {{"cpu", "0"}})}, {{pod}}, 9);
  REQUIRE(full);
  CHECK(full->trials == 9);
  CHECK(full->limit == "");
  CHECK(room_in_quotas({small_quota({{"cpu", "36"}}, {{"cpu", "1"}})}, {{pod}}, 9)->limit ==
        "cpu of quota team: 1 of 36 used");
  CHECK_FALSE(room_in_quotas({}, {{pod}}, 9));
}

TEST_CASE("decimal amounts are added exactly: three pods of 0.1 CPUs fit into 300m") {
  CHECK(room_in_quotas({small_quota({{"cpu", "300m"}})}, {{small_pod(0.1)}}, 9)->trials == 3);
  CHECK(room_on_nodes({small_node("a", "300m")}, {}, {{small_pod(0.1)}}, 9).trials == 3);
  CHECK(room_on_nodes({small_node("a", "299m")}, {}, {{small_pod(0.1)}}, 9).trials == 2);
}

TEST_CASE("a pod takes no room on a node if it has ended or has no node") {
  const std::vector<json> nodes{small_node("a", "2")};
  const auto trials = [&](const std::string& node, const std::string& phase) {
    return room_on_nodes(nodes, {working_pod(node, phase)}, {{small_pod(1)}}, 9).trials;
  };
  CHECK(trials("a", "Running") == 1);
  CHECK(trials("a", "Pending") == 1);
  CHECK(trials("a", "Succeeded") == 2);
  CHECK(trials("a", "Failed") == 2);
  CHECK(trials("", "Pending") == 2);
  CHECK(trials("b", "Running") == 2);
  CHECK(room_on_nodes(nodes, {}, {{small_pod(1)}}, 9).limit ==
        "CPUs, memory, devices or places for pods of the nodes");
  CHECK(room_on_nodes(nodes, {}, {{small_pod(1)}}, 2).limit == "");
}

TEST_CASE("a toleration matches a taint by key, value and effect") {
  const json taint = {{"key", "gpu"}, {"value", "yes"}, {"effect", "NoSchedule"}};
  const struct {
    json toleration;
    int fits;
  } cases[] = {{{{"key", "gpu"}, {"value", "yes"}}, 1},
               {{{"key", "gpu"}, {"value", "no"}}, 0},
               {{{"key", "gpu"}}, 0},
               {{{"key", "cpu"}, {"value", "yes"}}, 0},
               {{{"operator", "Exists"}}, 1},
               {{{"operator", "Exists"}, {"key", "gpu"}}, 1},
               {{{"operator", "Exists"}, {"key", "cpu"}}, 0},
               {{{"key", "gpu"}, {"value", "yes"}, {"effect", "NoSchedule"}}, 1},
               {{{"key", "gpu"}, {"value", "yes"}, {"effect", "NoExecute"}}, 0}};
  for (const auto& each : cases)
    CHECK_MESSAGE(fit_on(taint, json::array({each.toleration})) == each.fits, each.toleration.dump());
  CHECK(fit_on(taint, nullptr) == 0);
  CHECK(fit_on({{"key", "gpu"}, {"effect", "NoExecute"}}, nullptr) == 0);
  CHECK(fit_on({{"key", "gpu"}, {"effect", "PreferNoSchedule"}}, nullptr) == 1);
}

TEST_CASE("amounts of bytes are shown in MiB or GiB, and other amounts as numbers") {
  constexpr double mebi = 1048576;
  CHECK(text_of_amount("cpu", 2.5) == "2.5");
  CHECK(text_of_amount("pods", 110) == "110");
  CHECK(text_of_amount("memory", 512 * mebi) == "512 MiB");
  CHECK(text_of_amount("limits.memory", 1024 * mebi) == "1 GiB");
  CHECK(text_of_amount("requests.storage", 1023 * mebi) == "1023 MiB");
  CHECK(text_of_amount("ephemeral-storage", 1536 * mebi) == "1.5 GiB");
}
