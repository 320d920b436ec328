// The ended runs of a driven sweep, and what mlk still does for each of them.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "cli/kube/client.h"
#include "cli/run/facts/run_objects.h"
#include "sweeps/trials/observe.h"

namespace mlk::sweeps {

// A run is settled when its final record is written and its Jobs need no more action. Not thread-safe.
class EndedRuns {
 public:
  // The client must outlive this object.
  EndedRuns(kube::Client& client, std::string name_space)
      : client_(client), name_space_(std::move(name_space)) {}

  const std::set<std::string>& settled() const { return settled_; }

  // Whether `runs` lacks the end of the pods of an ended run that is not settled yet. Each kind of object has
  // its own watch, so the end of a Job may be visible first. In this case the caller must list all objects
  // again: without the pod, mlk would store the end of the trial without its result.
  bool lack_ends_of_pods(const std::map<std::string, RunObjects>& runs, const SweepStatus& sweep) const;

  // Settles each ended run whose pods have nothing more to report: writes its final record while its pods
  // exist, and suspends its Jobs that would continue. Returns false if `go_on` has ended the work early.
  bool settle(const std::map<std::string, RunObjects>& runs, const SweepStatus& sweep,
              const std::function<bool()>& go_on);

  // Whether the last settle() has left out a run whose pods may still report.
  bool any_waits() const { return any_waits_; }

 private:
  bool is_due(const std::string& run, const RunStatus& status) const;

  kube::Client& client_;
  const std::string name_space_;
  std::set<std::string> settled_;
  std::map<std::string, std::chrono::steady_clock::time_point>
      ended_since_;  // when settle() first saw the end
  bool any_waits_ = false;
};

}  // namespace mlk::sweeps
