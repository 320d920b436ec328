// The content of a run's Jobs, pods and events as plain values. read_facts.h reads these values, and
// observe() derives the state of the run from them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/run/facts/containers.h"
#include "cli/run/facts/failure_policy.h"
#include "cli/util/indexes.h"
#include "cli/util/time.h"

namespace mlk {

struct PodFacts {
  std::string name, uid, job, role, node;
  int rank = 0;
  int number = 0;     // the number shown to people: the rank or, for a trial, its number in the sweep
  std::string phase;  // Pending, Running, Succeeded, Failed, Unknown
  bool scheduled = false;
  bool deleting = false;   // its deletion was requested, or it is gone already
  bool node_lost = false;  // the node counts as lost (node_loss.h)
  int failures_before =
      0;  // all failures of this rank, as the Job controller counted them when it made the pod
  int counted_before = 0;  // those of failures_before that use up retries
  Time created{};
  // Times of the program's container. If another container is at fault, `finished` is the end of that
  // container.
  std::optional<Time> started, finished;
  std::optional<Time> pod_finished;  // the latest end among main and the plain containers
  bool main_runs = false;
  std::optional<int> exit_code;         // absent until the program has ended
  std::string end_reason, end_message;  // "Error", "OOMKilled", "StartError"; the termination message
  std::vector<Container> others;        // all containers except the program's
  bool done = false;  // the program has ended with 0 by itself; the other containers may still run or fail
  std::string pod_reason, pod_message;         // status.reason: "Evicted", "NodeLost" ...
  std::string disruption, disruption_message;  // reason of the DisruptionTarget condition
  // When the pod was disrupted or deleted. If the kubelet itself disrupts the pod, this may be the time of
  // its report, which comes after the end of the pod.
  std::optional<Time> asked_to_end;
  std::string waiting_reason, waiting_message;
  bool trained = false;  // the result of the pod says that the run is trained
  PolicyAction action =
      PolicyAction::none;      // what the Job's podFailurePolicy says about this failed pod or program
  bool final = false;          // the end of this pod makes the Job fail
  bool fell_with_job = false;  // it failed because its Job is being deleted (deletion.h)
  bool left = false;           // its Job is not there any more (pods_left.h)
  std::string program, image;  // the name and the image of the program's container
  std::string memory_limit;    // of the program's container, as its pod writes it; empty: none
  std::string denied;          // advice_on_denied() about its last words
  std::string unschedulable;   // why the pod has no node, in the scheduler's words

  bool ended() const { return phase == "Succeeded" || phase == "Failed"; }
  bool program_runs() const { return !ended() && !exit_code && (main_runs || phase == "Running"); }
  bool program_failed() const { return phase == "Failed" || (!ended() && exit_code.value_or(0) != 0); }
};

struct JobFacts {
  std::string name, uid, role;
  std::string queue;  // the queue of Kueue, if the Job requests a queue
  int completions = 1, parallelism = 1;
  int needed = 1;  // the number of ranks that the run needs to continue
  int enough =
      1;  // if this number of ranks ends well, the run has succeeded, whatever other ranks and the Job do
  int attempts = 1;             // how many tries are allowed
  bool counts_by_rank = false;  // `attempts` is the limit of each rank; else of all ranks together
  bool run_over = false;        // the end of the run is decided
  int active = 0;
  bool decides = false, trains = false, has_success_policy = false, suspended = false, deleting = false;
  bool resumed = false;  // by another program, after mlk had suspended the Job (annotations::suspended)
  bool replaced_when_terminating = false;  // podReplacementPolicy
  Indexes completed, failed_ranks;
  std::optional<Time> started;
  int time_limit = 0;  // seconds; 0: none

  bool finished = false;  // the Job is Complete or Failed: it starts no more pods
  enum class End { none, succeeded, failed };
  // The end that the Job reports, but not a failure that the deletion of the Job has caused. Each Job of a
  // succeeded run has `succeeded`. If a program has failed for good but other containers can keep its pod
  // alive, the Job has `failed` before it reports this.
  End end = End::none;
  bool ending = false;   // the Job has decided its end, or will fail at any moment; pods are being removed
  bool failing = false;  // the Job will fail, but has not reported the condition Failed yet
  std::string end_reason, end_message;
  // The time of the end or, while `ending`, of the decision. If mlk knows the end from the pods and not from
  // the Job, this is the time at which a container of these pods ended. Empty if the time is not known.
  std::optional<Time> ended_at;
  std::optional<Time> failure_decided_at;  // when the Job itself decided to fail; empty: not yet
};

// A warning of the cluster about one object.
struct Warning {
  std::string reason, message;
  Time at{};
};

struct Facts {
  std::vector<JobFacts> jobs;                   // the deciding Job first, then by name
  std::vector<JobFacts> gone_jobs;              // Jobs that are not there any more, as their pods name them
  std::vector<PodFacts> pods;                   // oldest first
  std::map<std::string, Warning> warnings;      // the newest about a Job or pod, by its uid: names are reused
  std::map<std::string, Warning> failed_pulls;  // the newest failed pull of an image, by uid of the pod
  std::set<std::string>
      told_not_ready;  // uids of the pods whose node is not ready, as the node controller reports in events

  // The Job whose end is the end of the run; nullptr if there is no such Job.
  const JobFacts* decider() const { return jobs.empty() || !jobs.front().decides ? nullptr : &jobs.front(); }
};

}  // namespace mlk
