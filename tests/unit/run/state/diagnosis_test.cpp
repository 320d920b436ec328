// Tests the texts that explain why a rank does not run. They are made from plain facts.
#include "cli/run/state/diagnosis.h"

#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/last_words.h"
#include "tests/unit/run/told_pods.h"

TEST_SUITE_BEGIN("run/state/diagnosis");

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

TEST_CASE("each kind of end of a pod has its own text") {
  const struct {
    const char* words;
    std::function<void(PodFacts&)> change;
  } table[] = {
      {"exit code 1", [](PodFacts&) {}},
      {"exit code 128", [](PodFacts& pod) { pod.exit_code = 128; }},
      {"exit code 70 on node gpu-3", [](PodFacts& pod) { pod.exit_code = 70, pod.node = "gpu-3"; }},
      {"killed by signal 1 (SIGHUP)", [](PodFacts& pod) { pod.exit_code = 129; }},
      {"killed by signal 2 (SIGINT)", [](PodFacts& pod) { pod.exit_code = 130; }},
      {"killed by signal 3 (SIGQUIT)", [](PodFacts& pod) { pod.exit_code = 131; }},
      {"killed by signal 4 (SIGILL)", [](PodFacts& pod) { pod.exit_code = 132; }},
      {"killed by signal 6 (SIGABRT)", [](PodFacts& pod) { pod.exit_code = 134; }},
      {"killed by signal 7 (SIGBUS)", [](PodFacts& pod) { pod.exit_code = 135; }},
      {"killed by signal 8 (SIGFPE)", [](PodFacts& pod) { pod.exit_code = 136; }},
      {"killed by signal 9 (SIGKILL)", [](PodFacts& pod) { pod.exit_code = 137; }},
      {"killed by signal 11 (SIGSEGV)", [](PodFacts& pod) { pod.exit_code = 139; }},
      {"killed by signal 13 (SIGPIPE)", [](PodFacts& pod) { pod.exit_code = 141; }},
      {"killed by signal 15 (SIGTERM)", [](PodFacts& pod) { pod.exit_code = 143; }},
      {"killed by signal 64", [](PodFacts& pod) { pod.exit_code = 192; }},
      {"exit code 193", [](PodFacts& pod) { pod.exit_code = 193; }},
      {"out of memory",
       [](PodFacts& pod) {
         pod.end_reason = "OOMKilled";
         pod.disruption = "EvictionByEvictionAPI";
       }},
      {"the program could not be started: \"x\": no such file",
       [](PodFacts& pod) {
         pod.end_reason = "StartError";
         pod.end_message = "failed to create: runc: exec: \"x\": no such file: unknown";
       }},
      {"the program could not be started: plainly said",
       [](PodFacts& pod) {
         pod.end_reason = "ContainerCannotRun";
         pod.end_message = "plainly said";
       }},
      {"preempted by a pod of higher priority",
       [](PodFacts& pod) {
         pod.disruption = "PreemptionByScheduler";
         pod.node_lost = true;
       }},
      {"node n1 was lost",
       [](PodFacts& pod) {
         pod.disruption = "DeletionByTaintManager";
         pod.node_lost = true;
       }},
      {"node n1 was lost or drained", [](PodFacts& pod) { pod.disruption = "DeletionByTaintManager"; }},
      {"evicted by a node drain or an administrator",
       [](PodFacts& pod) { pod.disruption = "EvictionByEvictionAPI"; }},
      {"node n1 is gone", [](PodFacts& pod) { pod.disruption = "DeletionByPodGC"; }},
      {"ended by node n1: the pod's words",
       [](PodFacts& pod) {
         pod.disruption = "TerminationByKubelet";
         pod.disruption_message = "the condition's words";
         pod.pod_message = "the pod's words";
       }},
      {"ended by node n1: the condition's words",
       [](PodFacts& pod) {
         pod.disruption = "TerminationByKubelet";
         pod.disruption_message = "the condition's words";
       }},
      {"disrupted: of another kind", [](PodFacts& pod) { pod.disruption = "of another kind"; }},
      {"disrupted: the condition's words",
       [](PodFacts& pod) {
         pod.disruption = "Another";
         pod.disruption_message = "the condition's words";
       }},
      {"evicted: too much memory",
       [](PodFacts& pod) {
         pod.pod_reason = "Evicted";
         pod.pod_message = "too much memory";
       }},
      {"node n1 is lost", [](PodFacts& pod) { pod.pod_reason = "NodeLost"; }},
      {"node n1 is lost", [](PodFacts& pod) { pod.node_lost = true; }},
      {"the time limit passed", [](PodFacts& pod) { pod.pod_reason = "DeadlineExceeded"; }},
      {"rejected by node n1: no room left",
       [](PodFacts& pod) {
         pod.exit_code.reset();
         pod.pod_reason = "OutOfcpu";
         pod.pod_message = "no room left";
       }},
      {"rejected by node n1: OutOfcpu",
       [](PodFacts& pod) {
         pod.exit_code.reset();
         pod.pod_reason = "OutOfcpu";
       }},
      {"exit code 1", [](PodFacts& pod) { pod.pod_reason = "OutOfcpu"; }},
      {"its pod failed", [](PodFacts& pod) { pod.exit_code.reset(); }},
      {"its pod was deleted",
       [](PodFacts& pod) {
         pod.exit_code.reset();
         pod.deleting = true;
       }},
      {"its pod was deleted",
       [](PodFacts& pod) {
         pod.exit_code = 137;
         pod.deleting = true;
       }},
  };
  for (const auto& row : table) CHECK(reason_of(row.change) == row.words);
}

TEST_CASE("what_happened() leaves out the last words of a program that was ended from outside") {
  const auto told = [](const std::string& disruption) {
    const Failure failure = describe_end(failed_with([&](PodFacts& pod) {
                                           pod.disruption = disruption;
                                           pod.end_message = "loss 0.3\nlow";
                                         }),
                                         job_of_workers(), true);
    CHECK(failure.disruption == !disruption.empty());
    CHECK(failure.message == "loss 0.3\nlow");
    return what_happened(failure);
  };
  CHECK(told("PreemptionByScheduler") == "preempted by a pod of higher priority");
  CHECK(told("EvictionByEvictionAPI") == "evicted by a node drain or an administrator");
  CHECK(told("") == "exit code 1: low");
}

TEST_CASE("describe_end() returns the rank, exit code, signal and last words of a failed pod") {
  const Failure killed = describe_end(failed_with([](PodFacts& pod) {
                                        pod.exit_code = 137;
                                        pod.end_message = " one\ntwo \n";
                                      }),
                                      job_of_workers(), true);
  CHECK(killed.role == "worker");
  CHECK(killed.rank == 3);
  CHECK(killed.exit_code == 137);
  CHECK(killed.signal == 9);
  CHECK(killed.message == "one\ntwo");
  CHECK(killed.at == noon);
  CHECK_FALSE(killed.disruption);

  PodFacts unlabelled = failed_with([](PodFacts& pod) {
    pod.role = "";
    pod.exit_code.reset();
  });
  CHECK(describe_end(unlabelled, job_of_workers(), true).role == "worker");
  CHECK(describe_end(unlabelled, job_of_workers(), true).exit_code == -1);
  CHECK(describe_end(failed_with([](PodFacts& pod) { pod.role = "server"; }), job_of_workers(), true).role ==
        "server");

  const auto signal = [](int code, const std::string& reason = "") {
    return describe_end(failed_with([&](PodFacts& pod) {
                          pod.exit_code = code;
                          pod.end_reason = reason;
                        }),
                        job_of_workers(), true)
        .signal;
  };
  CHECK(signal(128) == 0);
  CHECK(signal(129) == 1);
  CHECK(signal(192) == 64);
  CHECK(signal(193) == 0);
  CHECK(signal(1, "OOMKilled") == 9);
}

TEST_CASE("the message of a failure is at most the last 4096 bytes of the program's words") {
  const auto message = [](const std::string& text) {
    return describe_end(failed_with([&](PodFacts& pod) { pod.end_message = text; }), job_of_workers(), true)
        .message;
  };
  CHECK(message(R"({"schema":1,"message":"loss is nan"})") == "loss is nan");
  CHECK(message(R"({"schema":1})").empty());
  CHECK(message(R"({"message":"no result"})") == R"({"message":"no result"})");
  CHECK(message(std::string(4096, 'a')) == std::string(4096, 'a'));
  CHECK(message("x" + std::string(4095, 'a') + "z") == std::string(4095, 'a') + "z");
}

TEST_CASE("a failure is a disruption if the pod was disrupted or deleted, but not by its own Job") {
  const auto disrupted = [](const std::function<void(PodFacts&)>& change,
                            const std::function<void(JobFacts&)>& in = {}) {
    JobFacts job = job_of_workers();
    if (in) in(job);
    return describe_end(failed_with(change), job, true).disruption;
  };
  CHECK_FALSE(disrupted([](PodFacts&) {}));
  CHECK(disrupted([](PodFacts& pod) { pod.disruption = "PreemptionByScheduler"; }));
  CHECK(disrupted([](PodFacts& pod) { pod.node_lost = true; }));
  CHECK(disrupted([](PodFacts& pod) { pod.pod_reason = "NodeLost"; }));
  CHECK_FALSE(disrupted([](PodFacts& pod) { pod.pod_reason = "Evicted"; }));
  const auto deleted = [](PodFacts& pod) { pod.deleting = true; };
  CHECK(disrupted(deleted));
  // A pod that its own Job has deleted was not disrupted.
  CHECK_FALSE(disrupted(deleted, [](JobFacts& job) { job.ending = true; }));
  CHECK_FALSE(disrupted(deleted, [](JobFacts& job) { job.end = JobFacts::End::failed; }));
  CHECK_FALSE(disrupted(deleted, [](JobFacts& job) { job.suspended = true; }));
  CHECK_FALSE(disrupted(deleted, [](JobFacts& job) { job.deleting = true; }));
}

TEST_CASE("a failure has the number of its try and the time of the next try") {
  const auto end = [](const std::function<void(PodFacts&)>& change,
                      const std::function<void(JobFacts&)>& in = {}, bool newest = true) {
    JobFacts job = job_of_workers();
    if (in) in(job);
    return describe_end(failed_with(change), job, newest);
  };
  const auto nothing = [](PodFacts&) {};
  CHECK(end(nothing).attempt == 1);
  CHECK(end(nothing).attempts == 4);
  CHECK(end(nothing).next == noon + 10s);
  CHECK(end([](PodFacts& pod) { pod.counted_before = 2; }).attempt == 3);
  CHECK(end([](PodFacts& pod) { pod.counted_before = 9; }).attempt == 4);
  const int delays[] = {10, 20, 40, 80, 160, 320, 600, 600, 600};
  for (int before = 0; before < 9; ++before)
    CHECK(end([&](PodFacts& pod) { pod.failures_before = before; }).next ==
          noon + std::chrono::seconds(delays[before]));
  CHECK_FALSE(end(nothing, {}, false).next);
  CHECK_FALSE(end(nothing, [](JobFacts& job) { job.failed_ranks = {3}; }).next);
  CHECK(end(nothing, [](JobFacts& job) { job.failed_ranks = {2}; }).next);
  CHECK_FALSE(end(nothing, [](JobFacts& job) { job.ending = true; }).next);
  CHECK_FALSE(end(nothing, [](JobFacts& job) { job.suspended = true; }).next);
  CHECK_FALSE(end(nothing, [](JobFacts& job) { job.end = JobFacts::End::failed; }).next);
  CHECK_FALSE(end([](PodFacts& pod) { pod.phase = "Running"; }).next);
  CHECK_FALSE(end([](PodFacts& pod) { pod.finished.reset(); }).next);
  const Failure final = end([](PodFacts& pod) {
    pod.final = true;
    pod.action = PolicyAction::fail_job;
  });
  CHECK_FALSE(final.next);
  CHECK(final.attempts == 1);
}

TEST_CASE("one_line() shows a failure with its last words and the wait for the next try") {
  Failure failure;
  failure.reason = "exit code 3";
  CHECK(one_line(failure, noon) == "exit code 3");
  failure.message = "first\n  the last words  \n";
  CHECK(what_happened(failure) == "exit code 3: the last words");
  failure.message = std::string(300, 'a');
  CHECK(what_happened(failure) == "exit code 3: " + std::string(200, 'a') + "...");
  failure.message = "code 3";
  CHECK(what_happened(failure) == "exit code 3");
  failure.reason = "the program could not be started: x";
  failure.message = "something longer";
  CHECK(what_happened(failure) == failure.reason);

  failure = {};
  failure.reason = "exit code 3";
  failure.attempt = 2;
  failure.attempts = 4;
  CHECK(one_line(failure, noon) == "exit code 3 (try 2 of 4)");
  failure.next = noon + 9500ms;
  CHECK(one_line(failure, noon) == "exit code 3 (try 2 of 4, next in 10s)");
  failure.next = noon;
  CHECK(one_line(failure, noon) == "exit code 3 (try 2 of 4, next is due)");
  failure.disruption = true;
  CHECK(one_line(failure, noon) == "exit code 3 (next is due)");
}

TEST_CASE("each reason why a pod waits has its text and its weight") {
  CHECK(why([](PodFacts&) {}) == Waiting{0, ""});
  const auto lost = [](PodFacts& pod) { pod.node_lost = true; };
  CHECK(why(lost) ==
        Waiting{40,
                "node n1 is lost; its ranks come back when the node returns, is deleted, or is tainted "
                "out-of-service"});
  JobFacts replacing = job_of_workers();
  replacing.replaced_when_terminating = true;
  CHECK(why_pod_waits(pod_with(lost), replacing, {}).text ==
        "node n1 is lost; a replacement starts when the cluster gives it up");

  const auto unscheduled = [](const std::string& said) {
    return [said](PodFacts& pod) {
      pod.scheduled = false;
      pod.unschedulable = said;
    };
  };
  CHECK(why(unscheduled("")) == Waiting{0, ""});
  CHECK(why(unscheduled("SchedulingGated")) == Waiting{30, "held back by a scheduling gate"});
  CHECK(why(unscheduled("0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes")) ==
        Waiting{30, "cannot be scheduled: 0/2 nodes are available: 2 Insufficient cpu."});

  const auto waiting = [](const std::string& reason, const std::string& message = "") {
    return [=](PodFacts& pod) {
      pod.waiting_reason = reason;
      pod.waiting_message = message;
    };
  };
  CHECK(why(waiting("InvalidImageName", "it is not good")) ==
        Waiting{90, "invalid image name image:1: it is not good", true});
  CHECK(why(waiting("ErrImagePull", "said before: invalid reference format: upper case")) ==
        Waiting{90, "invalid image name image:1: invalid reference format: upper case", true});
  for (const char* reason : {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable",
                             "ImageInspectError", "SignatureValidationFailed"}) {
    CHECK(why(waiting(reason, "no such host")) ==
          Waiting{60, "image image:1 cannot be pulled: no such host"});
    CHECK(why(waiting(reason)) == Waiting{60, std::string("image image:1 cannot be pulled: ") + reason});
  }
  CHECK(why(waiting(
            "ImagePullBackOff",
            "Back-off pulling image \"image:1\": ErrImagePull: failed to pull and unpack image \"image:1\": "
            "failed to resolve reference \"image:1\": no such host")) ==
        Waiting{60, "image image:1 cannot be pulled: no such host"});
  for (const char* reason : {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}) {
    CHECK(why(waiting(reason, "no such secret")) ==
          Waiting{60, "the container cannot be made: no such secret"});
    CHECK(why(waiting(reason)) == Waiting{60, std::string("the container cannot be made: ") + reason});
  }
  CHECK(why(waiting("ContainerCreating", "on its way")) == Waiting{0, ""});
  CHECK(why(waiting("PodInitializing")) == Waiting{0, ""});

  const auto ends_before_its_pod = [](PodFacts& pod) {
    pod.exit_code = 2;
    pod.end_message = "first\nno such volume\n";
  };
  CHECK(why(ends_before_its_pod) == Waiting{45, "exit code 2: no such volume"});
  CHECK(why([](PodFacts& pod) { pod.exit_code = 0; }) == Waiting{0, ""});
  CHECK(why([](PodFacts& pod) {
          pod.exit_code = 2;
          pod.phase = "Failed";
        }) == Waiting{0, ""});
}

TEST_CASE("if a pod does not start, a warning about it is shown unless the warning is temporary") {
  for (const char* reason :
       {"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "NetworkNotReady"})
    CHECK(why([](PodFacts&) {}, warning("pod-uid", reason, "no such disk")) == Waiting{50, "no such disk"});
  CHECK(why([](PodFacts&) {}, warning("pod-uid", "Unhealthy", "no such disk")) == Waiting{0, ""});
  CHECK(why([](PodFacts&) {}, warning("another", "FailedMount", "no such disk")) == Waiting{0, ""});
  CHECK(why([](PodFacts& pod) { pod.phase = "Running"; }, warning("pod-uid", "FailedMount", "x")) ==
        Waiting{0, ""});
  CHECK(why([](PodFacts& pod) { pod.scheduled = false; }, warning("pod-uid", "FailedMount", "x")) ==
        Waiting{0, ""});
  CHECK(why([](PodFacts&) {}, warning("pod-uid", "FailedMount", "failed to sync configmap cache")) ==
        Waiting{0, ""});
}

TEST_CASE("the last error of a pull is still shown while the image is pulled again") {
  Facts facts;
  facts.failed_pulls["pod-uid"] = {"Failed", "Failed to pull image \"image:1\": no such host", noon};
  const auto creating = [](PodFacts& pod) { pod.waiting_reason = "ContainerCreating"; };
  CHECK(why(creating, facts) == Waiting{60, "image image:1 cannot be pulled: no such host"});
  CHECK(why(
            [&](PodFacts& pod) {
              creating(pod);
              pod.scheduled = false;
            },
            facts) == Waiting{0, ""});
  CHECK(why(
            [&](PodFacts& pod) {
              creating(pod);
              pod.phase = "Running";
            },
            facts) == Waiting{0, ""});
  CHECK(why([](PodFacts& pod) { pod.waiting_reason = "PodInitializing"; }, facts) == Waiting{0, ""});
}

TEST_CASE("why_no_pod() says why a Job has no pods, and whether the run can still start") {
  CHECK(why_none("Error creating: pods \"x\" is forbidden: exceeded quota: small") ==
        Waiting{55, "the quota of the namespace is used up: exceeded quota: small"});
  CHECK(why_none("unable to create new content because it is being terminated") ==
        Waiting{80, "the namespace is being deleted", true});
  CHECK(why_none("serviceaccount \"default\" not found") ==
        Waiting{50, "the cluster refuses its pods: serviceaccount \"default\" not found"});
  CHECK(why_none("status unknown for quota: small") ==
        Waiting{50, "the cluster refuses its pods: status unknown for quota: small"});
  CHECK(why_none("Error creating: pods \"x\" is forbidden: not allowed") ==
        Waiting{80, "the cluster refuses its pods: not allowed", true});
  CHECK(why_none("Error creating: Pod \"x\" is invalid: spec: wrong") ==
        Waiting{80, "the cluster refuses its pods: Pod \"x\" is invalid: spec: wrong", true});
  CHECK(why_none("admission webhook \"w\" denied the request: no") ==
        Waiting{80, "the cluster refuses its pods: admission webhook \"w\" denied the request: no", true});
  CHECK(why_none("Error creating: the server is busy") ==
        Waiting{50, "the cluster refuses its pods: the server is busy"});
  CHECK(why_none("is forbidden", "BackoffLimitExceeded") == Waiting{0, ""});
  CHECK(why_no_pod(job_of_workers(), warning("another", "FailedCreate", "is forbidden")).weight == 0);
}

TEST_CASE("merge_causes() joins equal causes of several ranks, and sorts the causes by weight") {
  const auto cause = [](int weight, const char* text, int rank, const char* role = "worker") {
    return Cause{weight, text, false, role, {rank}};
  };
  const auto merged = merge_causes({cause(10, "slow", 4), cause(30, "first", 0), cause(30, "second", 1),
                                    cause(10, "slow", 2), cause(10, "slow", 0, "server")});
  REQUIRE(merged.size() == 4);
  CHECK(one_line(merged[0]) == "worker/0: first");
  CHECK(one_line(merged[1]) == "worker/1: second");
  CHECK(one_line(merged[2]) == "worker/2,4: slow");
  CHECK(one_line(merged[3]) == "server/0: slow");
  CHECK(one_line(Cause{1, "whole", false, "worker", {}}) == "worker: whole");
  CHECK(one_line(Cause{1, "alone", false, "", {1}}) == "alone");
}

TEST_CASE("last_line() returns the last line that is not blank") {
  CHECK(last_line("").empty());
  CHECK(last_line(" \n\n").empty());
  CHECK(last_line("only") == "only");
  CHECK(last_line("one\n two \n\n") == "two");
}

TEST_CASE("parse_result() accepts a termination message that is an object with the key `schema`") {
  CHECK(parse_result(" {\"schema\":1,\"step\":2}\n")["step"] == 2);
  CHECK(parse_result(R"({"step":2})").is_null());
  CHECK(parse_result(R"([{"schema":1}])").is_null());
  CHECK(parse_result(R"(x {"schema":1})").is_null());
  CHECK(parse_result(R"({"schema":1)").is_null());
  CHECK(parse_result("").is_null());
}

TEST_CASE("each message about a lost connection to another process blames that process") {
  for (const char* words :
       {"ConnectionResetError: [Errno 104] Connection reset by peer", "BrokenPipeError: Broken pipe",
        "dial tcp: CONNECTION REFUSED", "Connection closed by peer [10.0.0.1]",
        "NCCL: connection was likely closed", "NCCL: remote process exiting or a network error",
        "Socket closed", "UNAVAILABLE: failed to connect to all addresses", "another task died",
        "worker/1 ended with exit code 66"}) {
    CAPTURE(words);
    CHECK(blames_a_peer(words));
  }
  for (const char* words : {"", "ValueError: no data", "peer", "socket is closed", "loss is nan"})
    CHECK_FALSE(blames_a_peer(words));
}

TEST_CASE("line_of() returns one line with a limited number of bytes") {
  CHECK(line_of(" a\nb\tc \n") == "a b c");
  CHECK(line_of("a\x1b[1mb\x07") == "ab");
  CHECK(line_of(std::string(400, 'a')) == std::string(400, 'a'));
  CHECK(line_of(std::string(401, 'a')) == std::string(400, 'a') + "...");
  CHECK(line_of("abc", 3) == "abc");
  CHECK(line_of("abcd", 3) == "abc...");
  CHECK(line_of("ab\xc3\xa9", 3) == "ab...");  // cut between characters
  CHECK(line_of("") == "");
}

}  // namespace
}  // namespace mlk
