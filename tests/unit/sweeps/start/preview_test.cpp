#include "sweeps/start/preview.h"

#include <doctest/doctest.h>

#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/start/preview");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::Sweeper;

namespace {

PodNeed pod_need(int count, double cpu, double memory, double gpus = 0) {
  PodNeed out;
  out.count = count;
  out.requests = {{"cpu", cpu}, {"memory", memory}};
  if (gpus > 0) out.requests["nvidia.com/gpu"] = gpus;
  out.limits = {{"memory", memory}};
  return out;
}

json quota(const std::string& name, const json& hard, const json& used) {
  return {{"metadata", {{"name", name}}}, {"status", {{"hard", hard}, {"used", used}}}};
}

json node(const std::string& name, const std::string& cpu, const std::string& pods = "110") {
  return {{"metadata", {{"name", name}, {"labels", {{"disk", "fast"}}}}},
          {"status", {{"allocatable", {{"cpu", cpu}, {"memory", "8Gi"}, {"pods", pods}}}}}};
}

json pod_on(const std::string& node, const std::string& cpu, const std::string& phase = "Running") {
  return {{"spec", {{"nodeName", node}, {"containers", {{{"resources", {{"requests", {{"cpu", cpu}}}}}}}}}},
          {"status", {{"phase", phase}}}};
}

}  // namespace

TEST_CASE("cost_of() adds up the costs of all groups of trials") {
  Sweeper sweeper(
      "name: x\nmode: ps\nworkers: {count: 2, cpu: 500m, gpu: 1}\nservers: {cpu: 1, memory: 2Gi}\n"
      "train: {data: {path: /d}, steps: 1}\n");
  const Definition sweep = sweeper.define({"workers.count=2,4", "lr=0.1,0.2,0.3"});
  const std::vector<TrialGroup> groups = groups_of(sweeper.request(sweep), sweeper.hooks(), sweep.points);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].trials == 3);
  CHECK(groups[0].need.pod_count() + groups[1].need.pod_count() == 3 + 5);
  const Cost cost = cost_of(groups, 20, 4);
  // Three trials need 2 CPUs each, and three trials need 3 CPUs each, all for a third of an hour.
  CHECK(cost.cpu_hours == doctest::Approx((3 * 2 + 3 * 3) / 3.0));
  CHECK(cost.gpu_hours == doctest::Approx((3 * 2 + 3 * 4) / 3.0));
  CHECK(cost.hours == doctest::Approx(2 / 3.0));  // six trials, four at a time
}

TEST_CASE("room_in_quotas() counts the trials for which a quota has room, and names the scarcest resource") {
  const TrialNeed need{{pod_need(2, 0.5, 1 << 30, 1)}};
  const json quotas = {quota("cpus", {{"requests.cpu", "8"}, {"pods", "100"}}, {{"requests.cpu", "4500m"}}),
                       quota("gpus", {{"requests.nvidia.com/gpu", "8"}}, {{"requests.nvidia.com/gpu", "2"}}),
                       quota("other", {{"configmaps", "0"}}, json::object())};
  const std::optional<Room> room = room_in_quotas(quotas.get<std::vector<json>>(), need, 10);
  REQUIRE(room);
  CHECK(room->trials == 3);
  CHECK(room->limit == "requests.cpu of quota cpus: 4.5 of 8 used");
  CHECK(room_in_quotas({quotas[1]}, need, 10)->trials == 3);
  CHECK(room_in_quotas({quotas[1]}, need, 2)->limit == "");
  CHECK_FALSE(room_in_quotas({quotas[2]}, need, 10));
  // mlk cannot decide whether a quota for only some pods applies to the pods of the sweep.
  for (const json& scope : {json{{"scopes", {"Terminating"}}},
                            json{{"scopeSelector", {{"matchExpressions", json::array({json::object()})}}}}}) {
    json scoped = quotas[1];
    scoped["spec"] = scope;
    CHECK_FALSE(room_in_quotas({scoped}, need, 10));
  }
  const json memory = quota("m", {{"limits.memory", "5Gi"}, {"count/pods", "3"}}, {{"limits.memory", "6Gi"}});
  CHECK(room_in_quotas({memory}, need, 10)->trials == 0);
  CHECK(room_in_quotas({memory}, need, 10)->limit == "limits.memory of quota m: 6 GiB of 5 GiB used");
}

TEST_CASE("room_on_nodes() places each pod of a trial where other pods leave room") {
  const TrialNeed need{{pod_need(2, 1, 1 << 20)}};
  const std::vector<json> nodes{node("a", "4"), node("b", "3")};
  CHECK(room_on_nodes(nodes, {}, need, 10).trials == 3);  // there is room for seven pods
  CHECK(room_on_nodes(nodes, {}, need, 3).limit == "");
  CHECK(room_on_nodes(nodes, {}, need, 10).limit != "");
  CHECK(room_on_nodes(nodes, {pod_on("a", "2500m"), pod_on("b", "1", "Succeeded")}, need, 10).trials == 2);
  CHECK(room_on_nodes({node("a", "4", "3")}, {}, need, 10).trials == 1);  // the node takes at most three pods
  json silent = node("a", "4");  // this node does not list memory, as in the embedded cluster
  silent["status"]["allocatable"].erase("memory");
  CHECK(room_on_nodes({silent}, {pod_on("a", "1")}, need, 10).trials == 1);
  CHECK(room_on_nodes({silent}, {}, need, 10).trials == 2);
  CHECK(room_on_nodes({}, {}, need, 10).trials == 0);
  CHECK(room_on_nodes({node("a", "64")}, {}, {{pod_need(1, 1, 1, 1)}}, 10).trials ==
        0);  // the node has no device
}

TEST_CASE("room_on_nodes() ignores nodes that do not accept the pods") {
  TrialNeed need{{pod_need(1, 1, 1)}};
  json cordoned = node("a", "2"), tainted = node("b", "2"), avoided = node("c", "2");
  cordoned["spec"]["unschedulable"] = true;
  tainted["spec"]["taints"] = {{{"key", "k"}, {"value", "v"}, {"effect", "NoSchedule"}}};
  avoided["spec"]["taints"] = {{{"key", "k"}, {"effect", "PreferNoSchedule"}}};
  const std::vector<json> nodes{cordoned, tainted, avoided};
  CHECK(room_on_nodes(nodes, {}, need, 10).trials == 2);
  need.pods[0].tolerations = {{{"key", "k"}, {"operator", "Equal"}, {"value", "v"}}};
  CHECK(room_on_nodes(nodes, {}, need, 10).trials == 4);
  need.pods[0].node_labels = {{"disk", "slow"}};
  CHECK(room_on_nodes(nodes, {}, need, 10).trials == 0);
}
