#include "cli/run/facts/at_fault.h"

namespace mlk {
namespace {

bool failed_end(const std::optional<ContainerEnd>& end) { return end && end->exit_code != 0; }

// Whether the program has failed or the cluster has ended the pod, so that no other container is at fault.
bool ends_without_others(const PodFacts& pod) {
  const bool of_cluster = !pod.pod_reason.empty() || !pod.disruption.empty();
  return of_cluster || pod.exit_code.value_or(0) != 0;
}

// Whether the container ended only because its pod was deleted. Such a container is not at fault.
bool ended_with_pod(const PodFacts& pod, const Container& container) {
  return pod.deleting &&
         (!pod.asked_to_end || !container.end->finished || *container.end->finished > *pod.asked_to_end);
}

}  // namespace

const Container* holding_up(const PodFacts& pod) {
  if (pod.main_runs || pod.exit_code) return nullptr;
  for (const Container& other : pod.others) {
    if (other.kind == ContainerKind::plain) break;  // plain containers and main start side by side
    const bool is_done =
        other.kind == ContainerKind::sidecar ? other.let_main_start : other.end && other.end->exit_code == 0;
    if (!is_done) return &other;
  }
  return nullptr;
}

const Container* at_fault(const PodFacts& pod) {
  if (ends_without_others(pod)) return nullptr;
  if (const Container* held = holding_up(pod)) {
    const std::optional<ContainerEnd>& end = held->end ? held->end : held->last_end;
    const bool to_blame = failed_end(end) && (held->kind == ContainerKind::init || !pod.ended());
    return to_blame && !(held->end && ended_with_pod(pod, *held)) ? held : nullptr;
  }
  if (pod.phase != "Failed") return nullptr;
  const Container* first = nullptr;
  for (const Container& other : pod.others) {
    if (other.kind == ContainerKind::sidecar || !failed_end(other.end) || ended_with_pod(pod, other))
      continue;
    if (first == nullptr || other.end->finished < first->end->finished) first = &other;
  }
  return first;
}

std::vector<std::string> waited_for(const PodFacts& pod) {
  std::vector<std::string> plain, sidecars;
  if (!pod.exit_code || pod.ended()) return plain;
  for (const Container& other : pod.others) {
    if (other.kind == ContainerKind::plain && !other.end) plain.push_back(other.name);
    if (other.kind == ContainerKind::sidecar && other.runs) sidecars.push_back(other.name);
  }
  return plain.empty() ? sidecars : plain;  // the kubelet ends sidecars after all other containers
}

bool failed_by_itself(const PodFacts& pod) {
  constexpr int by_sigterm = 143, by_sigkill = 137;
  const Container* other = at_fault(pod);
  const int code = other && other->end ? other->end->exit_code : pod.exit_code.value_or(0);
  return pod.deleting && !pod.fell_with_job && pod.finished && pod.asked_to_end &&
         *pod.finished <= *pod.asked_to_end && code != 0 && code != by_sigterm && code != by_sigkill;
}

}  // namespace mlk
