#include "cli/run/state/diagnosis.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "cli/run/facts/at_fault.h"
#include "cli/run/facts/job_times.h"
#include "cli/run/facts/last_words.h"
#include "cli/run/facts/next_try.h"
#include "cli/run/facts/program_error.h"
#include "cli/util/indexes.h"
#include "cli/util/json_path.h"
#include "cli/util/program_text.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using json = nlohmann::json;
using std::chrono::seconds;

constexpr std::size_t longest_message = 4096;

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string signal_name(int signal) {
  static const std::map<int, std::string> names{
      {1, "SIGHUP"}, {2, "SIGINT"},  {3, "SIGQUIT"},  {4, "SIGILL"},   {6, "SIGABRT"}, {7, "SIGBUS"},
      {8, "SIGFPE"}, {9, "SIGKILL"}, {11, "SIGSEGV"}, {13, "SIGPIPE"}, {15, "SIGTERM"}};
  const auto found = names.find(signal);
  return found == names.end() ? "" : found->second;
}

std::string describe_disruption(const PodFacts& pod) {
  if (pod.disruption == "PreemptionByScheduler") return "preempted by a pod of higher priority";
  if (pod.node_lost) return "node " + pod.node + " was lost";
  if (pod.disruption == "DeletionByTaintManager") return "node " + pod.node + " was lost or drained";
  if (pod.disruption == "EvictionByEvictionAPI") return "evicted by a node drain or an administrator";
  if (pod.disruption == "DeletionByPodGC") return "node " + pod.node + " is gone";
  if (pod.disruption == "TerminationByKubelet") {
    return "ended by node " + pod.node + ": " +
           line_of(pod.pod_message.empty() ? pod.disruption_message : pod.pod_message);
  }
  return "disrupted: " + line_of(pod.disruption_message.empty() ? pod.disruption : pod.disruption_message);
}

// Removes the text that the container runtime puts around the program and its error.
std::string describe_start_error(const std::string& message) {
  std::string text = message;
  if (const std::size_t exec = text.find("exec: "); exec != std::string::npos) text = text.substr(exec + 6);
  if (const std::size_t unknown = text.rfind(": unknown"); unknown != std::string::npos) text.resize(unknown);
  return "the program could not be started: " + line_of(text);
}

int signal_of(int exit_code) { return exit_code > 128 && exit_code <= 128 + 64 ? exit_code - 128 : 0; }

std::string describe_code(int exit_code) {
  const int signal = signal_of(exit_code);
  if (signal == 0) return fmt::format("exit code {}", exit_code);
  const std::string name = signal_name(signal);
  return fmt::format("killed by signal {}{}", signal, name.empty() ? "" : " (" + name + ")");
}

bool did_not_start(const std::string& reason) {
  return reason == "StartError" || reason == "ContainerCannotRun";
}

// Describes the end of a container other than `main`.
std::string describe_other(const Container& container, const ContainerEnd& end) {
  std::string what = describe_code(end.exit_code);
  if (end.reason == "OOMKilled") what = "out of memory";
  if (did_not_start(end.reason)) what = describe_start_error(end.message);
  return title(container) + ": " + what;
}

// The key of the experiment file that sets the memory of this role.
std::string memory_key(const std::string& role) {
  if (role == "worker" || role == "trial") return "workers.memory";
  return role == "server" ? "servers.memory" : "roles." + role + ".memory";
}

std::string describe_exit(const PodFacts& pod) {
  if (pod.end_reason == "OOMKilled" && (pod.memory_limit.empty() || pod.role.empty())) return "out of memory";
  if (pod.end_reason == "OOMKilled")
    return fmt::format("out of memory: its limit is {}, raise {}", pod.memory_limit, memory_key(pod.role));
  if (did_not_start(pod.end_reason)) return describe_start_error(pod.end_message);
  if (!pod.disruption.empty()) return describe_disruption(pod);
  if (pod.pod_reason == "Evicted") return "evicted: " + line_of(pod.pod_message);
  if (pod.pod_reason == "NodeLost" || pod.node_lost) return "node " + pod.node + " is lost";
  if (pod.pod_reason == "DeadlineExceeded") return "the time limit passed";
  if (!pod.exit_code && !pod.pod_reason.empty()) {
    return "rejected by node " + pod.node + ": " +
           line_of(pod.pod_message.empty() ? pod.pod_reason : pod.pod_message);
  }
  if (!pod.exit_code) return pod.deleting ? "its pod was deleted" : "its pod failed";
  if (pod.fell_with_job) return "its Job was deleted";
  if (pod.deleting && !failed_by_itself(pod)) return "its pod was deleted";
  // The exit code of mlk-runtime for errors of the machine or of mlk, such as a faulty GPU.
  constexpr int internal_error = 70;
  const bool by_machine = *pod.exit_code == internal_error && !pod.node.empty();
  return describe_code(*pod.exit_code) + (by_machine ? " on node " + pod.node : "");
}

std::string times(int count) { return count == 1 ? "once" : fmt::format("{} times", count); }

std::string names_of(const std::vector<std::string>& containers) {
  return (containers.size() == 1 ? "container " : "containers ") + join(containers, ", ");
}

std::string describe_creation_refusal(const std::string& message) {
  std::string text = line_of(message);
  if (text.starts_with("Error creating: ")) text = text.substr(16);
  // `pods "run-worker-0-x7f" is forbidden: ...`: the generated name is of no use to the user.
  if (const std::size_t forbidden = text.find("is forbidden: "); forbidden != std::string::npos)
    text = text.substr(forbidden + 14);
  return text;
}

// "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0": here the request alone exceeds the
// limit. Such a request is never accepted, even when other pods end.
bool exceeds_by_itself(const std::string& message) {
  const std::size_t used = message.find("used: "), limited = message.find(", limited:");
  if (used == std::string::npos || limited == std::string::npos || limited < used) return false;
  for (const std::string& each : split(message.substr(used + 6, limited - used - 6), ',')) {
    if (each.ends_with("=0")) return true;
  }
  return false;
}

// The scheduler's message, without its part about preemption.
std::string describe_unschedulable(const std::string& message) {
  std::string text = line_of(message);
  if (const std::size_t more = text.find(" preemption: "); more != std::string::npos) text.resize(more);
  return "cannot be scheduled: " + text;
}

// A container that does not start: `main`, or the container for which `main` waits.
struct Starting {
  std::string title, image;  // the title is empty for `main`
  std::string reason, message;
};

Starting starting_of(const PodFacts& pod) {
  const Container* held = holding_up(pod);
  if (held == nullptr) return {"", pod.image, pod.waiting_reason, pod.waiting_message};
  return {title(*held) + ": ", held->image, held->waiting_reason, held->waiting_message};
}

Cause image_cause(const Starting& container, std::string text) {
  // "Back-off pulling image "x": ErrImagePull: failed to pull and unpack image "x": failed to resolve
  // reference "x": ...": the last part is the reason; the other parts repeat known facts.
  for (const std::string& wrapper :
       {std::string("ErrImagePull: "), "Failed to pull image \"" + container.image + "\": ",
        "failed to pull and unpack image \"" + container.image + "\": ",
        "failed to resolve reference \"" + container.image + "\": "}) {
    if (const std::size_t at = text.find(wrapper); at != std::string::npos)
      text = text.substr(at + wrapper.size());
  }
  if (text.empty()) text = container.reason;
  return {cause_weight::container_problem,
          container.title + "image " + line_of(container.image) + " cannot be pulled: " + line_of(text)};
}

// If the container `main` has ended: why its pod has not ended. If a container before `main` has failed: what
// failed.
std::string describe_unfinished(const PodFacts& pod, const JobFacts& job) {
  if (pod.exit_code.value_or(0) == 0 && at_fault(pod) == nullptr) return what_keeps_pod(pod);
  std::string text = what_happened(describe_end(pod, job, false));
  if (const Container* held = holding_up(pod); held != nullptr && held->restarts > 0)
    text += fmt::format(" (started again {})", times(held->restarts));
  const std::vector<std::string> waits = waited_for(pod);
  return waits.empty() ? text : text + "; its pod waits for " + names_of(waits);
}

}  // namespace

Cause why_pod_waits(const PodFacts& pod, const JobFacts& job, const Facts& facts) {
  Cause cause;
  const Starting container = starting_of(pod);
  const std::string& reason = container.reason;
  // While the kubelet pulls an image again, only an event says why the last pull has failed.
  const auto pull = facts.failed_pulls.find(pod.uid);
  const bool pulls_again = pod.phase == "Pending" && pod.scheduled && reason == "ContainerCreating" &&
                           pull != facts.failed_pulls.end() &&
                           contains(pull->second.message, '"' + container.image + '"');
  const std::string& message = pulls_again ? pull->second.message : container.message;
  auto warning = facts.warnings.find(pod.uid);
  // This warning says that the kubelet has not read an existing ConfigMap or Secret yet. The kubelet reads
  // the object within seconds, but the warning stays longer, so mlk ignores it.
  if (warning != facts.warnings.end() && contains(warning->second.message, "failed to sync "))
    warning = facts.warnings.end();
  if (pod.node_lost) {
    const std::string then =
        job.replaced_when_terminating
            ? "a replacement starts when the cluster gives it up"
            : "its ranks come back when the node returns, is deleted, or is tainted out-of-service";
    cause = {cause_weight::node_lost, "node " + pod.node + " is lost; " + then};
  } else if (!pod.scheduled && !pod.unschedulable.empty()) {
    const std::string text = pod.unschedulable == "SchedulingGated"
                                 ? "held back by a scheduling gate"
                                 : describe_unschedulable(pod.unschedulable);
    cause = {cause_weight::unscheduled, text};
  } else if (reason == "InvalidImageName" || message.find("invalid reference format") != std::string::npos) {
    // Some container runtimes parse the name only when they pull, and the kubelet then reports ErrImagePull.
    std::string text = message;
    if (const std::size_t format = text.find("invalid reference format"); format != std::string::npos)
      text = text.substr(format);
    cause = {cause_weight::image_name,
             container.title + "invalid image name " + line_of(container.image) + ": " + line_of(text), true};
  } else if (pulls_again || reason == "ErrImagePull" || reason == "ImagePullBackOff" ||
             reason == "ErrImageNeverPull" || reason == "RegistryUnavailable" ||
             reason == "ImageInspectError" || reason == "SignatureValidationFailed") {
    cause = image_cause(container, message);
  } else if (reason == "CreateContainerConfigError" || reason == "CreateContainerError" ||
             reason == "RunContainerError") {
    cause = {cause_weight::container_problem, container.title + "the container cannot be made: " +
                                                  line_of(message.empty() ? reason : message)};
  } else if (pod.phase == "Pending" && pod.scheduled && warning != facts.warnings.end() &&
             (warning->second.reason == "FailedMount" || warning->second.reason == "FailedAttachVolume" ||
              warning->second.reason == "FailedCreatePodSandBox" ||
              warning->second.reason == "NetworkNotReady")) {
    cause = {cause_weight::cannot_begin, line_of(warning->second.message)};
  } else if (!pod.ended() && (pod.exit_code || at_fault(pod) != nullptr)) {
    const std::string text = describe_unfinished(pod, job);
    cause = {text.empty() ? 0 : cause_weight::failed, text};
  } else if (!container.title.empty()) {
    cause = {cause_weight::starting, "waits for " + title(*holding_up(pod))};
  }
  cause.role = job.role;
  cause.ranks = {pod.rank};
  return cause;
}

Cause why_no_pod(const JobFacts& job, const Facts& facts) {
  const auto warning = facts.warnings.find(job.uid);
  if (warning == facts.warnings.end() || warning->second.reason != "FailedCreate") return {};
  const std::string& message = warning->second.message;
  const std::string said = describe_creation_refusal(message);
  if (contains(message, "exceeded quota") && exceeds_by_itself(message))
    return {cause_weight::refused, "the quota of the namespace does not allow it: " + said, true, job.role};
  if (contains(message, "exceeded quota"))
    return {cause_weight::quota_used_up, "the quota of the namespace is used up: " + said, false, job.role};
  if (contains(message, "is being terminated"))
    return {cause_weight::refused, "the namespace is being deleted", true, job.role};
  // The default service account and the quota's status appear a moment after their namespace, so this refusal
  // is temporary.
  if (contains(message, "serviceaccount \"default\" not found") ||
      contains(message, "status unknown for quota"))
    return {cause_weight::cannot_begin, "the cluster refuses its pods: " + said, false, job.role};
  // With these words the server refuses the pod itself: the server would accept only a different pod.
  const bool refused = contains(message, "is forbidden") || contains(message, "is invalid") ||
                       contains(message, "denied the request");
  return {refused ? cause_weight::refused : cause_weight::cannot_begin,
          "the cluster refuses its pods: " + said, refused, job.role};
}

Failure describe_end(const PodFacts& pod, const JobFacts& job, bool newest) {
  Failure failure;
  failure.role = pod.role.empty() ? job.role : pod.role;
  failure.rank = pod.rank;
  const Container* other = at_fault(pod);
  const ContainerEnd end =
      other == nullptr ? ContainerEnd{pod.exit_code.value_or(-1), pod.end_reason, pod.end_message, {}, {}}
      : other->end     ? *other->end
                       : *other->last_end;
  if (other != nullptr) failure.container = other->name;
  failure.exit_code = end.exit_code;
  failure.signal = end.reason == "OOMKilled" ? 9 : signal_of(end.exit_code);
  const json result = parse_result(end.message);
  const std::string message = result.is_object() ? text_of(result, {"message"}) : end.message;
  const ProgramError error = program_error(program_text(message));
  failure.said = error.line + printable(pod.denied);
  failure.message = std::string(trim(cut_front(error.text, longest_message))) + printable(pod.denied);
  failure.reason = other == nullptr ? describe_exit(pod) : describe_other(*other, end);
  const bool killed_by_job =
      pod.deleting && (job.ending || job.end != JobFacts::End::none || job.suspended || job.deleting) &&
      !was_asked_before_failure(pod, job);
  failure.disruption = !pod.disruption.empty() || pod.node_lost || pod.pod_reason == "NodeLost" ||
                       (pod.deleting && !killed_by_job && pod.end_reason != "OOMKilled");
  failure.attempts = pod.final ? 1 : job.attempts;
  failure.attempt = std::min(pod.counted_before + 1, failure.attempts);
  failure.at = pod.finished;
  if (newest) failure.next = next_try(pod, job);
  return failure;
}

std::string what_keeps_pod(const PodFacts& pod) {
  const std::vector<std::string> waits = waited_for(pod);
  if (waits.empty()) return "";
  return fmt::format("the program has ended ({}), its pod waits for {}", describe_code(*pod.exit_code),
                     names_of(waits));
}

std::string trouble_beside(const PodFacts& pod) {
  const auto told = [](const Container& other, const ContainerEnd& end) {
    std::string text = describe_other(other, end);
    const std::string words = line_of(last_line(end.message), 200);
    if (!words.empty() && !contains(text, words) && !did_not_start(end.reason)) text += ": " + words;
    return other.restarts > 0 ? text + fmt::format(" (started again {})", times(other.restarts)) : text;
  };
  if (const Container* other = at_fault(pod); other != nullptr && other->end)
    return told(*other, *other->end);
  if (pod.ended() || pod.deleting) return "";
  for (const Container& other : pod.others) {
    if (other.kind == ContainerKind::init || (pod.exit_code && other.kind == ContainerKind::sidecar))
      continue;
    const bool waits = !other.waiting_reason.empty() && other.waiting_reason != "PodInitializing" &&
                       other.waiting_reason != "ContainerCreating";
    const std::optional<ContainerEnd>& end = other.end ? other.end : other.last_end;
    if (end && end->exit_code != 0 && (other.end || waits)) return told(other, *end);
    if (!waits || end) continue;
    return title(other) + " does not start: " +
           line_of(other.waiting_message.empty() ? other.waiting_reason : other.waiting_message);
  }
  return "";
}

std::string what_happened(const Failure& failure) {
  std::string text = failure.reason;
  // A program that was ended from outside has not printed the reason, so its last words are left out.
  std::string said = failure.said.empty() ? program_error(failure.message).line : failure.said;
  if (failure.message.empty() || failure.disruption) said.clear();
  const bool told = contains(text, said) || contains(text, "the program could not be started: ");
  if (!said.empty() && !told) text += ": " + line_of(said, 200);
  return text;
}

std::string one_line(const Failure& failure, Time now) {
  std::string text = what_happened(failure);
  std::vector<std::string> more;
  if (failure.attempts > 1 && !failure.disruption)
    more.push_back(fmt::format("try {} of {}", failure.attempt, failure.attempts));
  if (failure.next && *failure.next > now) {
    more.push_back("next in " + format_duration(std::chrono::ceil<seconds>(*failure.next - now)));
  } else if (failure.next) {
    more.push_back("next is due");
  }
  if (!more.empty()) text += " (" + join(more, ", ") + ")";
  return text;
}

std::vector<Cause> merge_causes(std::vector<Cause> causes) {
  std::vector<Cause> merged;
  for (Cause& cause : causes) {
    const auto same = std::ranges::find_if(
        merged, [&](const Cause& other) { return other.role == cause.role && other.text == cause.text; });
    if (same == merged.end()) {
      merged.push_back(std::move(cause));
    } else {
      same->ranks.insert(same->ranks.end(), cause.ranks.begin(), cause.ranks.end());
      same->weight = std::max(same->weight, cause.weight);
    }
  }
  std::ranges::stable_sort(merged, [](const Cause& a, const Cause& b) { return a.weight > b.weight; });
  for (Cause& cause : merged) std::sort(cause.ranks.begin(), cause.ranks.end());
  return merged;
}

std::string one_line(const Cause& cause) {
  if (cause.role.empty()) return cause.text;
  if (cause.ranks.empty()) return cause.role + ": " + cause.text;
  return cause.role + "/" + Indexes(cause.ranks).ranges() + ": " + cause.text;
}

}  // namespace mlk
