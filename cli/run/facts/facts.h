// What the Jobs, pods and events of a run say, as plain values: read_facts.h reads them, and observe()
// decides on them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/run/facts/containers.h"
#include "cli/run/facts/failure_policy.h"
#include "cli/util/indexes.h"
#include "cli/util/time.h"

namespace mlk {

struct PodFacts {
  std::string name, uid, job, role, node;
  int rank = 0;
  int number = 0;     // the number shown to people: the rank, or for a trial its number in the sweep
  std::string phase;  // Pending, Running, Succeeded, Failed, Unknown
  bool scheduled = false;
  bool deleting = false;   // it was asked to end, or is gone already
  bool node_lost = false;  // the node does not answer
  int failures_before =
      0;  // failures of this rank of all kinds, as the Job controller counted them when it made the pod
  int counted_before = 0;  // those of them that use up retries
  Time created{};
  // Of the program's container, unless another one is at fault: its end is `finished` then.
  std::optional<Time> started, finished;
  std::optional<Time> pod_finished;  // when the last of its containers ended
  bool main_runs = false;
  std::optional<int> exit_code;         // absent until the program has ended
  std::string end_reason, end_message;  // "Error", "OOMKilled", "StartError"; the termination message
  std::vector<Container> others;        // beside the program's
  bool done = false;  // the program has ended with 0 by itself, whatever the other containers do
  std::string pod_reason, pod_message;         // status.reason: "Evicted", "NodeLost" ...
  std::string disruption, disruption_message;  // reason of the DisruptionTarget condition
  std::optional<Time> asked_to_end;            // when it was disrupted or deleted, which its end follows
  std::string waiting_reason, waiting_message;
  bool trained = false;  // its result says that the run is trained
  PolicyAction action =
      PolicyAction::none;  // of its Job's podFailurePolicy; of a pod that has failed, or whose program has
  bool final = false;      // this end is the failure of the Job
  bool fell_with_job = false;  // it failed because its Job is being deleted (deletion.h)
  bool left = false;           // its Job is not there any more (pods_left.h)
  std::string program, image;  // the container of the program
  std::string denied;          // advice_on_denied() about its last words
  std::string unschedulable;   // the scheduler's sentence

  bool ended() const { return phase == "Succeeded" || phase == "Failed"; }
  bool program_runs() const { return !ended() && !exit_code && (main_runs || phase == "Running"); }
  bool program_failed() const { return phase == "Failed" || (!ended() && exit_code.value_or(0) != 0); }
};

struct JobFacts {
  std::string name, uid, role;
  std::string queue;  // of Kueue, if one was requested
  int completions = 1, parallelism = 1;
  int needed = 1;  // the run needs so many ranks to continue
  int enough =
      1;  // if so many ranks end well, the run has succeeded, whatever happens to the others and to the Job
  int attempts = 1;             // of a rank
  bool counts_by_rank = false;  // each rank has so many; else all together
  bool run_over = false;        // the end of the run is decided
  int active = 0;
  bool decides = false, trains = false, has_success_policy = false, suspended = false, deleting = false;
  bool replaced_when_terminating = false;  // podReplacementPolicy
  Indexes completed, failed_ranks;
  std::optional<Time> started;
  int time_limit = 0;  // seconds; 0: none

  bool finished = false;  // it is Complete or Failed: it starts no more pods
  enum class End { none, succeeded, failed };
  End end = End::none;   // as the Job says; if the run has succeeded: succeeded
  bool ending = false;   // FailureTarget or SuccessCriteriaMet: the end is decided, pods are being removed
  bool failing = false;  // the same, with FailureTarget
  std::string end_reason, end_message;
  // The time of the end or, while `ending`, of the decision. Nothing as long as the Job itself has not
  // reported it.
  std::optional<Time> ended_at;
};

// A warning of the cluster about one object.
struct Warning {
  std::string reason, message;
  Time at{};
};

struct Facts {
  std::vector<JobFacts> jobs;                   // the deciding one first, then by name
  std::vector<JobFacts> gone_jobs;              // those that are not there any more, as their pods name them
  std::vector<PodFacts> pods;                   // oldest first
  std::map<std::string, Warning> warnings;      // the newest by uid of the Job or pod, since names are reused
  std::map<std::string, Warning> failed_pulls;  // of images: the newest by uid of the pod
  std::set<std::string>
      told_not_ready;  // uids of pods of which the node controller says that their node is not

  // The Job whose end is the end of the run; nullptr if it is not there.
  const JobFacts* decider() const { return jobs.empty() || !jobs.front().decides ? nullptr : &jobs.front(); }
};

}  // namespace mlk
