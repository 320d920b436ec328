// Tests the states of a pod's containers, and which container is to blame for the end of the pod. The rows
// test both values of each condition.
#include "cli/run/facts/containers.h"

#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/at_fault.h"
#include "cli/run/facts/facts.h"

TEST_SUITE_BEGIN("run/facts/containers");

namespace mlk {
namespace {

using json = nlohmann::json;
using namespace nlohmann::literals;
using std::chrono::seconds;
using enum ContainerKind;

const Time end_of_all = *parse_time("2026-01-03T12:00:00Z");

ContainerEnd end_of_code(int code, std::optional<Time> at = end_of_all) {
  ContainerEnd end;
  end.exit_code = code;
  end.finished = at;
  return end;
}

Container container_of(ContainerKind kind, const char* name,
                       const std::function<void(Container&)>& change = {}) {
  Container out;
  out.name = name;
  out.kind = kind;
  if (change) change(out);
  return out;
}

Container ended_one(ContainerKind kind, const char* name, int code, std::optional<Time> at = end_of_all) {
  return container_of(kind, name, [&](Container& container) { container.end = end_of_code(code, at); });
}

PodFacts pod_beside(std::vector<Container> others, const std::function<void(PodFacts&)>& change = {}) {
  PodFacts pod;
  pod.phase = "Pending";
  pod.others = std::move(others);
  if (change) change(pod);
  return pod;
}

std::string name_or_none(const Container* container) { return container == nullptr ? "" : container->name; }

TEST_CASE("read_containers() reads the kind, image and state of each container of a pod") {
  const PodContainers read = read_containers(R"({
    "spec": {"initContainers": [{"name": "fetch", "image": "git:1"},
                                {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"},
                                {"name": "once", "restartPolicy": "OnFailure"}],
             "containers": [{"name": "agent", "image": "agent:1", "restartPolicy": "Always"},
                            {"name": "main", "image": "image:1"}]},
    "status": {"initContainerStatuses": [
                 {"name": "proxy", "started": true, "restartCount": 4,
                  "state": {"running": {"startedAt": "2026-01-03T12:00:00Z"}},
                  "lastState": {"terminated": {"exitCode": 5, "reason": "Error", "message": "said",
                                               "startedAt": "2026-01-03T11:59:00Z",
                                               "finishedAt": "2026-01-03T11:59:58Z"}}},
                 {"name": "agent", "restartCount": 9}],
               "containerStatuses": [
                 {"name": "main", "state": {"waiting": {"reason": "PodInitializing", "message": "soon"}}},
                 {"name": "agent", "started": false, "state": {"terminated": {"exitCode": 0}}},
                 {"name": "fetch", "restartCount": 9}]}})"_json);
  REQUIRE(read.others.size() == 4);
  const char* names[] = {"fetch", "proxy", "once", "agent"};
  const ContainerKind kinds[] = {init, sidecar, init, plain};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(read.others[i].name == names[i]);
    CHECK(read.others[i].kind == kinds[i]);
  }
  CHECK(read.main.name == "main");
  CHECK(read.main.image == "image:1");
  CHECK(read.main.kind == plain);
  CHECK(read.main.waiting_reason == "PodInitializing");
  CHECK(read.main.waiting_message == "soon");
  CHECK_FALSE(read.main.runs);
  const Container &fetch = read.others[0], &proxy = read.others[1], &agent = read.others[3];
  CHECK(fetch.image == "git:1");
  CHECK(fetch.restarts == 0);  // init containers have no status in this list
  CHECK_FALSE(fetch.end);
  CHECK(proxy.runs);
  CHECK(proxy.let_main_start);
  CHECK(proxy.runs_since == end_of_all);
  CHECK(proxy.restarts == 4);
  CHECK_FALSE(proxy.end);
  REQUIRE(proxy.last_end);
  CHECK(proxy.last_end->exit_code == 5);
  CHECK(proxy.last_end->reason == "Error");
  CHECK(proxy.last_end->message == "said");
  CHECK(proxy.last_end->started == end_of_all - seconds(60));
  CHECK(proxy.last_end->finished == end_of_all - seconds(2));
  CHECK(agent.image == "agent:1");
  CHECK(agent.restarts == 0);
  CHECK_FALSE(agent.runs);
  CHECK_FALSE(agent.let_main_start);
  CHECK_FALSE(agent.last_end);
  REQUIRE(agent.end);
  CHECK(agent.end->exit_code == 0);
  CHECK_FALSE(agent.end->finished);
}

TEST_CASE("main_container_of() returns the only container of a pod, whatever its name is") {
  const auto only = [](const json& name) {
    return main_container_of({{"spec", {{"containers", json::array({{{"name", name}}})}}}});
  };
  CHECK(only("trainer") == "trainer");
  CHECK(only("") == "main");
  CHECK(only(3) == "main");
  CHECK(main_container_of({{"spec", {{"containers", json::array()}}}}) == "main");
  CHECK(main_container_of({{"spec", {{"containers", "x"}}}}) == "main");
  // Without a spec, the container with the name main counts as main.
  const PodContainers read = read_containers(
      R"({"status": {"containerStatuses": [{"name": "main", "restartCount": 2},
                                           {"name": "other", "restartCount": 3}]}})"_json);
  CHECK(read.main.restarts == 2);
  CHECK(read.others.empty());
}

TEST_CASE("title() calls a container \"init container\" if it runs once before `main`") {
  CHECK(title(container_of(init, "a")) == "init container a");
  CHECK(title(container_of(sidecar, "a")) == "container a");
  CHECK(title(container_of(plain, "a")) == "container a");
}

TEST_CASE("`main` waits for its init containers to succeed and for its sidecars to start, one by one") {
  const auto holds = [](std::vector<Container> others, const std::function<void(PodFacts&)>& change = {}) {
    return name_or_none(holding_up(pod_beside(std::move(others), change)));
  };
  const auto started = [](Container& container) { container.let_main_start = true; };
  CHECK(holds({}) == "");
  CHECK(holds({container_of(init, "a")}) == "a");
  CHECK(holds({ended_one(init, "a", 0)}) == "");
  CHECK(holds({ended_one(init, "a", 1)}) == "a");
  CHECK(holds({ended_one(init, "a", 0), container_of(init, "b"), container_of(init, "c")}) == "b");
  CHECK(holds({container_of(init, "a", started)}) == "a");
  CHECK(holds({container_of(sidecar, "a")}) == "a");
  CHECK(holds({container_of(sidecar, "a", started)}) == "");
  CHECK(holds({ended_one(sidecar, "a", 0)}) == "a");
  CHECK(holds({container_of(sidecar, "a", started), container_of(init, "b")}) == "b");
  CHECK(holds({container_of(plain, "a")}) == "");
  CHECK(holds({container_of(init, "a")}, [](PodFacts& pod) { pod.main_runs = true; }) == "");
  CHECK(holds({container_of(init, "a")}, [](PodFacts& pod) { pod.exit_code = 0; }) == "");
}

TEST_CASE("if `main` did not fail, at_fault() blames the container that failed first") {
  const auto to_blame = [](std::vector<Container> others, const std::function<void(PodFacts&)>& change = {}) {
    PodFacts pod = pod_beside(std::move(others));
    pod.phase = "Failed";
    pod.exit_code = 0;
    if (change) change(pod);
    return name_or_none(at_fault(pod));
  };
  CHECK(to_blame({ended_one(plain, "a", 2)}) == "a");
  CHECK(to_blame({ended_one(plain, "a", 0)}) == "");
  CHECK(to_blame({container_of(plain, "a")}) == "");
  CHECK(to_blame({ended_one(sidecar, "a", 2)}) == "");
  CHECK(to_blame({ended_one(plain, "a", 2), ended_one(plain, "b", 3)}) == "a");
  CHECK(to_blame({ended_one(plain, "a", 2), ended_one(plain, "b", 3, end_of_all - seconds(1))}) == "b");
  CHECK(to_blame({ended_one(plain, "a", 2, end_of_all - seconds(1)), ended_one(plain, "b", 3)}) == "a");
  CHECK(to_blame({ended_one(plain, "a", 0, end_of_all - seconds(1)), ended_one(plain, "b", 3)}) == "b");
  const std::vector<Container> failed = {ended_one(plain, "a", 2)};
  CHECK(to_blame(failed, [](PodFacts& pod) { pod.phase = "Running"; }) == "");
  CHECK(to_blame(failed, [](PodFacts& pod) { pod.phase = "Succeeded"; }) == "");
  CHECK(to_blame(failed, [](PodFacts& pod) { pod.exit_code = 1; }) == "");
  CHECK(to_blame(failed, [](PodFacts& pod) { pod.exit_code.reset(); }) == "a");
  CHECK(to_blame(failed, [](PodFacts& pod) { pod.pod_reason = "Evicted"; }) == "");
  CHECK(to_blame(failed, [](PodFacts& pod) { pod.disruption = "PreemptionByScheduler"; }) == "");
  // An end that the deletion of the pod caused is not the reason for its failure.
  const auto deleted = [](std::optional<Time> asked) {
    return [asked](PodFacts& pod) {
      pod.deleting = true;
      pod.asked_to_end = asked;
    };
  };
  CHECK(to_blame(failed, deleted(std::nullopt)) == "");
  CHECK(to_blame(failed, deleted(end_of_all - seconds(1))) == "");
  CHECK(to_blame(failed, deleted(end_of_all)) == "a");
  CHECK(to_blame({ended_one(plain, "a", 2, std::nullopt)}, deleted(end_of_all)) == "");
  CHECK(to_blame(failed, [](PodFacts& pod) { pod.asked_to_end = end_of_all - seconds(1); }) == "a");
}

TEST_CASE("if `main` does not start, at_fault() blames the failed init container or sidecar") {
  const auto to_blame = [](const Container& container, const char* phase = "Pending",
                           const std::function<void(PodFacts&)>& change = {}) {
    PodFacts pod = pod_beside({container, ended_one(plain, "beside", 3)}, change);
    pod.phase = phase;
    return name_or_none(at_fault(pod));
  };
  const auto before = [](ContainerKind kind, int code) {
    return container_of(kind, "a", [&](Container& container) { container.last_end = end_of_code(code); });
  };
  CHECK(to_blame(container_of(init, "a")) == "");
  CHECK(to_blame(container_of(init, "a"), "Failed") == "");
  for (const char* phase : {"Pending", "Failed"}) {
    CHECK(to_blame(ended_one(init, "a", 1), phase) == "a");
    CHECK(to_blame(before(init, 1), phase) == "a");
    CHECK(to_blame(before(init, 0), phase) == "");
  }
  // Exit codes of sidecars do not affect the end of a pod.
  CHECK(to_blame(ended_one(sidecar, "a", 1)) == "a");
  CHECK(to_blame(before(sidecar, 1)) == "a");
  CHECK(to_blame(ended_one(sidecar, "a", 1), "Failed") == "");
  CHECK(to_blame(before(sidecar, 1), "Succeeded") == "");
  const auto deleted = [](PodFacts& pod) {
    pod.deleting = true;
    pod.asked_to_end = end_of_all - seconds(1);
  };
  CHECK(to_blame(ended_one(init, "a", 1), "Pending", deleted) == "");
  CHECK(to_blame(before(init, 1), "Pending", deleted) == "a");
  // The newest end of the container decides.
  Container again = before(init, 1);
  again.end = end_of_code(0);
  again.kind = sidecar;
  CHECK(to_blame(again) == "");
}

TEST_CASE("waited_for() names the plain containers that have not ended, or else the running sidecars") {
  using Names = std::vector<std::string>;
  const auto waits = [](std::vector<Container> others, const std::function<void(PodFacts&)>& change = {}) {
    PodFacts pod = pod_beside(std::move(others));
    pod.phase = "Running";
    pod.exit_code = 0;
    if (change) change(pod);
    return waited_for(pod);
  };
  const auto running = [](Container& container) { container.runs = true; };
  CHECK(waits({container_of(plain, "a"), container_of(plain, "b", running)}) == Names{"a", "b"});
  CHECK(waits({ended_one(plain, "a", 0)}).empty());
  CHECK(waits({container_of(sidecar, "a", running)}) == Names{"a"});
  CHECK(waits({container_of(sidecar, "a")}).empty());
  CHECK(waits({container_of(sidecar, "a", running), container_of(plain, "b")}) == Names{"b"});
  CHECK(waits({container_of(init, "a", running)}).empty());
  CHECK(waits({container_of(plain, "a")}, [](PodFacts& pod) { pod.exit_code.reset(); }).empty());
  for (const char* phase : {"Succeeded", "Failed"})
    CHECK(waits({container_of(plain, "a")}, [&](PodFacts& pod) { pod.phase = phase; }).empty());
}

}  // namespace
}  // namespace mlk
