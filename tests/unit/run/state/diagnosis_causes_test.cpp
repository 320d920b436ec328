// Tests which container is to blame for the end of a pod, and the text about this container.
#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/state/diagnosis.h"
#include "tests/unit/run/told_pods.h"

TEST_SUITE_BEGIN("run/state/diagnosis_causes");

namespace mlk {
namespace {

using namespace std::chrono_literals;
using told::failed_with;
using told::job_of_workers;
using told::noon;
using told::pod_with;
using told::reason_of;
using told::Waiting;
using told::warning;
using told::why;
using told::why_none;

Container beside_main(ContainerKind kind, const std::function<void(Container&)>& change) {
  Container container;
  container.name = "agent";
  container.kind = kind;
  change(container);
  return container;
}

ContainerEnd end_of(int code, const std::string& message = "", const std::string& reason = "") {
  ContainerEnd end;
  end.exit_code = code;
  end.message = message;
  end.reason = reason;
  return end;
}

// The text about a pod whose program runs beside this container.
std::string trouble_with(ContainerKind kind, const std::function<void(Container&)>& change,
                         const std::function<void(PodFacts&)>& of_pod = {}) {
  return trouble_beside(pod_with([&](PodFacts& pod) {
    pod.phase = "Running";
    pod.main_runs = true;
    pod.others = {beside_main(kind, change)};
    if (of_pod) of_pod(pod);
  }));
}

TEST_CASE("a container beside `main` is shown if it failed or does not start") {
  using enum ContainerKind;
  const auto nothing = [](Container&) {};
  const auto ends = [](int code, const std::string& message = "", const std::string& reason = "") {
    return [=](Container& container) { container.end = end_of(code, message, reason); };
  };
  const auto waits = [](const std::string& reason, const std::string& message = "") {
    return [=](Container& container) {
      container.waiting_reason = reason;
      container.waiting_message = message;
    };
  };
  CHECK(trouble_with(plain, nothing) == "");
  CHECK(trouble_with(plain, ends(0)) == "");
  CHECK(trouble_with(plain, ends(2)) == "container agent: exit code 2");
  CHECK(trouble_with(plain, ends(2, "a\nno config\n")) == "container agent: exit code 2: no config");
  CHECK(trouble_with(plain, ends(2, "code 2")) == "container agent: exit code 2");  // not repeated
  CHECK(trouble_with(plain, ends(137, "", "OOMKilled")) == "container agent: out of memory");
  CHECK(trouble_with(plain, ends(128, "exec: \"x\": no such file: unknown", "StartError")) ==
        "container agent: the program could not be started: \"x\": no such file");
  CHECK(trouble_with(plain, ends(2, std::string(201, 'a'))) ==
        "container agent: exit code 2: " + std::string(200, 'a') + "...");
  CHECK(trouble_with(plain, waits("ErrImagePull", "no host")) == "container agent does not start: no host");
  CHECK(trouble_with(plain, waits("ErrImagePull")) == "container agent does not start: ErrImagePull");
  for (const char* passes : {"", "PodInitializing", "ContainerCreating"})
    CHECK(trouble_with(plain, waits(passes, "soon")) == "");
  // A restarted container counts while it waits for its next start.
  const auto again = [&](const std::string& reason, int code, int restarts) {
    return [=](Container& container) {
      container.waiting_reason = reason;
      container.last_end = end_of(code);
      container.restarts = restarts;
    };
  };
  CHECK(trouble_with(sidecar, again("CrashLoopBackOff", 1, 1)) ==
        "container agent: exit code 1 (started again once)");
  CHECK(trouble_with(sidecar, again("CrashLoopBackOff", 1, 2)) ==
        "container agent: exit code 1 (started again 2 times)");
  CHECK(trouble_with(sidecar, again("", 1, 1)) == "");
  CHECK(trouble_with(sidecar, again("CrashLoopBackOff", 0, 1)) == "");
  // Init containers have ended before main runs, and sidecars end with the pod.
  CHECK(trouble_with(init, ends(2)) == "");
  const auto over = [](PodFacts& pod) { pod.exit_code = 0; };
  CHECK(trouble_with(sidecar, ends(2)) == "container agent: exit code 2");
  CHECK(trouble_with(sidecar, ends(2), over) == "");
  CHECK(trouble_with(plain, ends(2), over) == "container agent: exit code 2");
  CHECK(trouble_with(plain, ends(2), [](PodFacts& pod) { pod.deleting = true; }) == "");
  CHECK(trouble_with(plain, ends(2), [](PodFacts& pod) { pod.phase = "Succeeded"; }) == "");
  CHECK(trouble_with(plain, ends(2), [](PodFacts& pod) {
          pod.phase = "Failed";  // because of this container
          pod.main_runs = false;
          pod.exit_code = 0;
        }) == "container agent: exit code 2");
}

TEST_CASE("describe_end() describes the end of the container that is to blame") {
  using enum ContainerKind;
  const auto failure = [](const std::function<void(Container&)>& change) {
    return describe_end(failed_with([&](PodFacts& pod) {
                          pod.exit_code.reset();
                          pod.end_message = "of main";
                          pod.others = {beside_main(init, change)};
                        }),
                        job_of_workers(), true);
  };
  const Failure ended = failure([](Container& container) { container.end = end_of(139, "one\ntwo"); });
  CHECK(ended.container == "agent");
  CHECK(ended.exit_code == 139);
  CHECK(ended.signal == 11);
  CHECK(ended.reason == "init container agent: killed by signal 11 (SIGSEGV)");
  CHECK(ended.message == "one\ntwo");
  CHECK(ended.said == "two");
  const Failure again = failure([](Container& container) { container.last_end = end_of(3, "before"); });
  CHECK(again.exit_code == 3);
  CHECK(again.message == "before");
  const Failure killed = failure([](Container& container) { container.end = end_of(1, "", "OOMKilled"); });
  CHECK(killed.signal == 9);
  CHECK(killed.reason == "init container agent: out of memory");
  CHECK(describe_end(failed_with([](PodFacts&) {}), job_of_workers(), true).container.empty());
}

TEST_CASE("advice is appended to the last words of a program that was denied a file") {
  const Failure failure = describe_end(failed_with([](PodFacts& pod) {
                                         pod.end_message = "a\nPermission denied\n";
                                         pod.denied = " (advice)";
                                       }),
                                       job_of_workers(), true);
  CHECK(failure.said == "Permission denied (advice)");
  CHECK(failure.message == "a\nPermission denied (advice)");
  CHECK(what_happened(failure) == "exit code 1: Permission denied (advice)");
}

TEST_CASE("the end of a deleted pod counts as a disruption if the program did not run out of memory") {
  const auto disrupted = [](const std::string& reason) {
    return describe_end(failed_with([&](PodFacts& pod) {
                          pod.deleting = true;
                          pod.end_reason = reason;
                        }),
                        job_of_workers(), true)
        .disruption;
  };
  CHECK(disrupted("Error"));
  CHECK_FALSE(disrupted("OOMKilled"));
}

TEST_CASE("the exit code 70, which may mean a faulty machine, is shown with the name of the node") {
  const auto reason = [](int code, const std::string& node) {
    return reason_of([&](PodFacts& pod) {
      pod.exit_code = code;
      pod.node = node;
    });
  };
  CHECK(reason(70, "n1") == "exit code 70 on node n1");
  CHECK(reason(70, "") == "exit code 70");
  CHECK(reason(69, "n1") == "exit code 69");
  CHECK(reason(71, "n1") == "exit code 71");
}

TEST_CASE("a program that failed before its pod was deleted is shown with its exit code") {
  const auto reason = [](int code, std::optional<Time> asked) {
    return reason_of([&](PodFacts& pod) {
      pod.exit_code = code;
      pod.deleting = true;
      pod.asked_to_end = asked;
    });
  };
  CHECK(reason(1, noon) == "exit code 1");
  CHECK(reason(1, noon + 1s) == "exit code 1");
  CHECK(reason(1, noon - 1s) == "its pod was deleted");
  CHECK(reason(1, std::nullopt) == "its pod was deleted");
  CHECK(reason(143, noon) == "its pod was deleted");
  CHECK(reason(137, noon) == "its pod was deleted");
  CHECK(reason(0, noon) == "its pod was deleted");
}

TEST_CASE("a run cannot start if one of its pods alone needs more than the quota") {
  const auto told = [](const std::string& amounts) {
    return why_none("Error creating: pods \"x\" is forbidden: exceeded quota: q, requested: pods=1" +
                    amounts);
  };
  const std::string said = "exceeded quota: q, requested: pods=1";
  CHECK(told(", used: pods=0, limited: pods=0") ==
        Waiting{80,
                "the quota of the namespace does not allow it: " + said + ", used: pods=0, limited: pods=0",
                true});
  CHECK(told(", used: cpu=3,pods=0, limited: pods=0").cannot_start);
  for (const char* amounts : {", used: pods=1, limited: pods=1", ", used: pods=10, limited: pods=0",
                              ", used: pods=0", ", limited: pods=0, used: pods=0", ""}) {
    CAPTURE(amounts);
    CHECK(told(amounts) == Waiting{55, "the quota of the namespace is used up: " + said + amounts, false});
  }
}

TEST_CASE("if a container before `main` does not start, the reason names this container") {
  const auto why_of = [](const std::string& reason, const std::string& message) {
    return why([&](PodFacts& pod) {
      pod.others = {beside_main(ContainerKind::init, [&](Container& container) {
        container.image = "git:1";
        container.waiting_reason = reason;
        container.waiting_message = message;
      })};
      pod.waiting_reason = "PodInitializing";
    });
  };
  CHECK(why_of("ErrImagePull", "Failed to pull image \"git:1\": no host") ==
        Waiting{60, "init container agent: image git:1 cannot be pulled: no host"});
  CHECK(why_of("InvalidImageName", "bad") ==
        Waiting{90, "init container agent: invalid image name git:1: bad", true});
  CHECK(why_of("CreateContainerError", "") ==
        Waiting{60, "init container agent: the container cannot be made: CreateContainerError"});
  CHECK(why_of("", "") == Waiting{15, "waits for init container agent"});
}

TEST_CASE("a lost node hides why a container waits, but an old message of the scheduler does not") {
  CHECK(why([](PodFacts& pod) {
          pod.node_lost = true;
          pod.waiting_reason = "ErrImagePull";
        }).weight == 40);
  CHECK(why([](PodFacts& pod) {
          pod.unschedulable = "no room";  // from the time before the pod was scheduled
          pod.waiting_reason = "ErrImagePull";
        }).weight == 60);
}

TEST_CASE("an ended program is shown with the containers that its pod still waits for") {
  using enum ContainerKind;
  const auto waits_for = [](std::vector<Container> others, int code) {
    return why([&](PodFacts& pod) {
      pod.phase = "Running";
      pod.exit_code = code;
      pod.others = std::move(others);
    });
  };
  const Container agent = beside_main(plain, [](Container& container) { container.runs = true; });
  Container second = agent;
  second.name = "proxy";
  CHECK(waits_for({agent}, 0) ==
        Waiting{45, "the program has ended (exit code 0), its pod waits for container agent"});
  CHECK(waits_for({agent, second}, 0) ==
        Waiting{45, "the program has ended (exit code 0), its pod waits for containers agent, proxy"});
  CHECK(waits_for({agent}, 3) == Waiting{45, "exit code 3; its pod waits for container agent"});
  CHECK(waits_for({}, 3) == Waiting{45, "exit code 3"});
}

TEST_CASE("what_happened() shows the program's error instead of the whole last words") {
  Failure failure;
  failure.reason = "exit code 1";
  failure.message = "other";
  failure.said = "ValueError: bad";
  CHECK(what_happened(failure) == "exit code 1: ValueError: bad");
  failure.message.clear();
  CHECK(what_happened(failure) == "exit code 1");
  failure.message = "other";
  failure.disruption = true;
  CHECK(what_happened(failure) == "exit code 1");
}

}  // namespace
}  // namespace mlk
