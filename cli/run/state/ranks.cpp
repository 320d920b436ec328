#include "cli/run/state/ranks.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "cli/run/facts/at_fault.h"
#include "cli/run/facts/job_times.h"
#include "cli/run/facts/last_words.h"

namespace mlk {
namespace {

using std::chrono::seconds;
using Pods = std::vector<const PodFacts*>;

constexpr int peers_lost_exit_code = 75;  // CONTRACT.md: this rank ended because it lost another rank
constexpr int aborted_exit_code = 134;    // SIGABRT: NCCL and MPI abort a program whose peer is lost

RankState state_of(const Rank& rank) {
  const JobFacts& job = *rank.job;
  if (job.completed.contains(rank.number) || done_pod(rank) != nullptr) return RankState::succeeded;
  if (job.failed_ranks.contains(rank.number)) return RankState::failed;
  if (rank.pods.empty()) return RankState::absent;
  const PodFacts& pod = *rank.pods.back();
  // When enough ranks have ended well, the Job removes the ranks whose end it has not seen by then.
  const bool done = job.end == JobFacts::End::succeeded || (job.ending && !job.failing);
  if (pod.phase == "Failed" && pod.deleting && pod.disruption.empty() && done) return RankState::removed;
  if (pod.phase == "Failed") return pod.final ? RankState::failed : RankState::restarting;
  if (pod.node_lost) return RankState::lost;
  if (pod.program_runs()) return RankState::running;
  if (pod.program_failed())
    return pod.final ? RankState::failed : RankState::restarting;  // the pod itself has not ended
  if (rank.restarts > 0) return RankState::restarting;
  return pod.scheduled ? RankState::starting : RankState::unscheduled;
}

Rank make_rank(const JobFacts& job, int number, Pods pods) {
  Rank rank;
  rank.job = &job;
  rank.number = number;
  rank.pods = std::move(pods);
  if (!rank.pods.empty())
    rank.restarts = std::max(static_cast<int>(rank.pods.size()) - 1, rank.pods.back()->failures_before);
  rank.state = state_of(rank);
  return rank;
}

}  // namespace

const PodFacts* done_pod(const Rank& rank) {
  const auto done = std::ranges::find_if(rank.pods, [](const PodFacts* pod) { return pod->done; });
  return done == rank.pods.end() ? nullptr : *done;
}

std::vector<Rank> collect_ranks(const Facts& facts) {
  std::vector<Rank> ranks;
  std::map<std::pair<std::string, int>, Pods> pods;
  std::map<std::string, const JobFacts*> jobs;
  for (const JobFacts& job : facts.jobs) jobs[job.name] = &job;
  for (const PodFacts& pod : facts.pods) {
    const auto job = jobs.find(pod.job);
    if (job == jobs.end()) continue;
    if (pod.ended() && is_of_earlier_start(pod, *job->second)) continue;
    pods[{pod.job, pod.rank}].push_back(&pod);
  }
  for (const JobFacts& job : facts.jobs) {
    for (int number = 0; number < job.completions; ++number) {
      const auto found = pods.find({job.name, number});
      ranks.push_back(make_rank(job, number, found == pods.end() ? Pods{} : found->second));
    }
  }
  return ranks;
}

std::vector<Rank> collect_ranks_left(const Facts& facts) {
  std::vector<Rank> ranks;
  for (const JobFacts& job : facts.gone_jobs) {
    std::map<int, Pods> pods;
    for (const PodFacts& pod : facts.pods) {
      if (pod.left && pod.job == job.name) pods[pod.rank].push_back(&pod);
    }
    for (auto& [number, of_rank] : pods) ranks.push_back(make_rank(job, number, std::move(of_rank)));
  }
  return ranks;
}

std::vector<PodEnd> collect_ends(const std::vector<Rank>& ranks, bool stopped) {
  std::vector<PodEnd> ends;
  for (const Rank& rank : ranks) {
    const JobFacts& job = *rank.job;
    for (const PodFacts* pod : rank.pods) {
      const bool lost = pod->node_lost && pod->deleting;
      if (!pod->program_failed() && !lost) continue;
      PodEnd end{pod, describe_end(*pod, job, pod == rank.pods.back()), false};
      const bool over =
          job.ending || job.end != JobFacts::End::none || job.suspended || job.deleting || stopped;
      const bool by_job = over && (stopped || !was_asked_before_failure(*pod, job));
      end.cascade = pod->fell_with_job ||
                    (pod->deleting && pod->disruption.empty() && by_job && !failed_by_itself(*pod));
      end.blames_a_peer = !end.failure.disruption && blames_a_peer(end.failure.message);
      ends.push_back(std::move(end));
    }
  }
  // Ends that the Job controller caused (`cascade`) come last. The times have no fractions of seconds. So of
  // several ends in one second, those with the exit code of a lost peer or of a signal come last. For a
  // disruption, the time of its beginning counts, since its pod ends later. A program that blames a peer may
  // end before the peer does, and the clocks of nodes differ, so its end counts 2 s later.
  const auto key = [](const PodEnd& end) {
    Time at = end.failure.at.value_or(Time::max());
    if (end.failure.disruption && end.pod->asked_to_end) at = std::min(at, *end.pod->asked_to_end);
    if (end.blames_a_peer && end.failure.at) at += seconds(2);
    return std::tuple(end.cascade, std::chrono::floor<seconds>(at), !end.failure.disruption,
                      end.failure.exit_code == peers_lost_exit_code,
                      end.failure.exit_code == 143 || end.failure.exit_code == 137,
                      end.failure.exit_code == aborted_exit_code, failed_by_itself(*end.pod),
                      end.failure.rank);
  };
  std::ranges::stable_sort(ends, [&](const PodEnd& a, const PodEnd& b) { return key(a) < key(b); });
  return ends;
}

const PodEnd* first_cause(const std::vector<PodEnd>& ends, const JobFacts& decider) {
  const auto first = [&](auto&& wanted) -> const PodEnd* {
    const auto found = std::find_if(ends.begin(), ends.end(),
                                    [&](const PodEnd& end) { return !end.cascade && wanted(end); });
    return found == ends.end() ? nullptr : &*found;
  };
  if (decider.end_reason == "DeadlineExceeded") return nullptr;  // no pod caused this end
  if (decider.end_reason == "PodFailurePolicy") {
    // "Container main for pod ns/name failed with exit code 66 matching FailJob rule at index 1"
    const PodEnd* named = first([&](const PodEnd& end) {
      return decider.end_message.find("/" + end.pod->name + " ") != std::string::npos;
    });
    if (named) {
      const auto alike = [&](const PodEnd& end) { return end.failure.exit_code == named->failure.exit_code; };
      const PodEnd* own =
          first([&](const PodEnd& end) { return alike(end) && !repeats_a_peer(end.failure.message); });
      return own ? own : first(alike);
    }
  }
  const auto exhausted = [&](const PodEnd& end) {
    return end.pod->job == decider.name && decider.failed_ranks.contains(end.pod->rank) &&
           end.failure.exit_code != peers_lost_exit_code;
  };
  // Disruptions are not counted as tries.
  const auto counted = [](const PodEnd& end) { return !end.failure.disruption && !end.blames_a_peer; };
  const PodEnd* cause = first([&](const PodEnd& end) { return exhausted(end) && counted(end); });
  if (cause) return cause;
  // If a rank has used up its tries because its peers failed, the first failure of a peer is the cause.
  if (first([&](const PodEnd& end) { return exhausted(end) && end.blames_a_peer; })) {
    cause = first([&](const PodEnd& end) { return end.pod->job == decider.name && counted(end); });
    if (cause) return cause;
  }
  cause = first([&](const PodEnd& end) { return exhausted(end) && !end.failure.disruption; });
  if (cause) return cause;
  const PodEnd* any = first(exhausted);
  return any ? any : first([](const PodEnd&) { return true; });
}

std::string_view state_name(const Rank& rank) {
  switch (rank.state) {
    case RankState::succeeded:
      return "Succeeded";
    case RankState::failed:
      return "Failed";
    case RankState::running:
      return "Running";
    case RankState::absent:
    case RankState::lost:
    case RankState::removed:
      return "Missing";
    case RankState::restarting:
      return rank.pods.back()->program_failed() ? "Failed" : "Pending";
    case RankState::unscheduled:
    case RankState::starting:
      return "Pending";
  }
  return "Missing";
}

}  // namespace mlk
