// Runs on the cluster: by the name that was typed, all of one, or all there are.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/status.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

struct RunFilter {
  std::string sweep{};      // the trials of this sweep that are runs; empty: all runs that are no trials
  std::string name{};       // of the experiment; empty: any
  std::string tag{};        // KEY or KEY=VALUE; empty: any
  bool configured = false;  // with RunStatus::experiment of each: more to read
};

// Everything of one run, read once, in four requests side by side, and one more if a Job ended between them.
// Throws Error{not_found} without an owner.
RunObjects fetch_run(kube::Client& client, const std::string& name_space, const std::string& run);

// The same with the newest metrics line of the reporting rank, as far as its log answers.
RunObjects fetch_run_with_lines(kube::Client& client, const std::string& name_space, const std::string& run);

// Throws Error{usage} for an empty name: that of a shell variable that was never set.
void require_run_name(const std::string& typed);

// Whether the owner is that of a sweep.
bool is_sweep(const nlohmann::json& owner);

// Whether it is that of a run which is a trial of a sweep.
bool is_trial(const nlohmann::json& owner);

// Whether a Job or pod is the driver of a detached sweep. A role of a trial may be called so as well, but its
// run is not the sweep.
bool is_driver(const nlohmann::json& object);

struct RunAddress {
  std::string run;  // full name
  bool is_sweep = false;
  std::optional<int> trial;  // of a sweep, when one was meant: digits-abcde/7
};

// What `typed` means: the run or sweep of that name, else the newest one of the experiment of that name; with
// /NUMBER a trial of a sweep. Throws Error: not_found with the nearest name as a hint, usage for a trial of
// what is no sweep.
RunAddress find_run(kube::Client& client, const std::string& name_space, const std::string& typed);

// All runs of the namespace, newest first: three requests side by side however many there are, then a short
// tail of a log of each that is going on.
// `why` of a run that waits is poorer than fetch_run's: no events are read.
// `of_sweep` makes the row of a sweep, from its owner and Jobs: its trials are not read.
using SweepRow = std::function<RunStatus(const RunObjects&)>;
std::vector<RunStatus> list_runs(kube::Client& client, const std::string& name_space, Time now,
                                 const RunFilter& filter = {}, const SweepRow& of_sweep = {});
// The names of those runs alone: one request.
std::vector<std::string> list_names(kube::Client& client, const std::string& name_space,
                                    const RunFilter& filter = {});

// Whether a Job has ended and a pod of it has not: the pods were read before the Jobs.
bool pods_are_older(const RunObjects& objects);

// The pure part of find_run, on the owners' metadata.
RunAddress choose_run(const std::vector<nlohmann::json>& owners, const std::string& name_space,
                      const std::string& typed);
// The pure parts of list_runs. Objects by run; Jobs and pods without an owner are left out.
std::vector<RunObjects> group_by_run(std::vector<nlohmann::json> owners, std::vector<nlohmann::json> jobs,
                                     std::vector<nlohmann::json> pods);
std::vector<RunStatus> observe_all(const std::vector<RunObjects>& runs, Time now,
                                   const SweepRow& of_sweep = {});
// Whether the owner's tags hold KEY, KEY=VALUE, or for KEY one that begins with "KEY=".
bool has_tag(const nlohmann::json& owner, const std::string& tag);

}  // namespace mlk
