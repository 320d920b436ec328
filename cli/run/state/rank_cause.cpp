#include "cli/run/state/rank_cause.h"

#include <string>

#include <fmt/format.h>

#include "cli/run/state/diagnosis.h"

namespace mlk {
namespace {

// The program of the rank runs or has ended well: the cause lies in another container of its pod.
Cause why_not_all_well(const Rank& rank) {
  if (rank.pods.empty()) return {};
  const PodFacts& pod = done_pod(rank) != nullptr ? *done_pod(rank) : *rank.pods.back();
  std::string text = what_keeps_pod(pod);
  if (text.empty()) text = trouble_beside(pod);
  return {text.empty() ? 0 : cause_weight::beside, text, false, rank.job->role, {rank.number}};
}

Cause why_failed(const Rank& rank, Time now) {
  const JobFacts& job = *rank.job;
  const Failure failure = describe_end(*rank.pods.back(), job, true);
  const bool final = rank.state == RankState::failed;
  const bool over = job.ending || job.end != JobFacts::End::none;
  const std::string text = over ? what_happened(failure) : one_line(failure, now);
  return {final ? cause_weight::failed_for_good : cause_weight::failed,
          (final && !over ? "failed for good: " : "") + text,
          false,
          job.role,
          {rank.number}};
}

// The new pod of the rank is not blocked, but it has not started yet.
Cause why_restarting(const Rank& rank) {
  const PodFacts& pod = *rank.pods.back();
  std::string text = "restarting";
  if (rank.pods.size() > 1)
    text += " after " + what_happened(describe_end(**(rank.pods.end() - 2), *rank.job, false));
  if (pod.counted_before > 0)
    text += fmt::format(" (try {} of {})", pod.counted_before + 1, rank.job->attempts);
  return {cause_weight::restarting, text, false, rank.job->role, {rank.number}};
}

Cause why_waiting(const Rank& rank, const Facts& facts) {
  Cause cause = why_pod_waits(*rank.pods.back(), *rank.job, facts);
  if (cause.weight > cause_weight::starting || rank.restarts == 0) return cause;
  const std::string waits = cause.text;
  cause = why_restarting(rank);
  if (!waits.empty()) cause.text += ": " + waits;
  return cause;
}

}  // namespace

Cause cause_of(const Rank& rank, const Facts& facts, Time now) {
  const JobFacts& job = *rank.job;
  if (rank.state == RankState::running || rank.state == RankState::succeeded) return why_not_all_well(rank);
  if (rank.pods.empty()) {
    Cause cause = why_no_pod(job, facts);
    cause.ranks = {rank.number};
    return cause;
  }
  if (rank.state == RankState::removed)
    return {cause_weight::removed, "removed by its Job, which had succeeded", false, job.role, {rank.number}};
  if (rank.pods.back()->phase == "Failed") return why_failed(rank, now);
  return why_waiting(rank, facts);
}

}  // namespace mlk
