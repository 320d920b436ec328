// Holds current copies of all objects of one run.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/run/state/status.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

// Remembers pods that are gone: the Job controller deletes the failed pods of a Job that ends, and the reason
// of the failure is lost with them.
class PodMemory {
 public:
  static constexpr std::size_t most_pods = 10000;

  // Stores this state of the pod in place of an earlier state.
  void remember(const nlohmann::json& pod);

  // Call it with all pods of the run after every change. Returns these pods, and the gone pods in their last
  // state. A gone pod that ran and had not ended becomes a failed pod. A gone pod that never ran is left out.
  std::vector<nlohmann::json> with_gone(std::vector<nlohmann::json> pods);

 private:
  std::map<std::string, nlohmann::json> last_seen_;  // by uid
};

// Adds the Jobs that are gone, in their last state `last_seen`, if these Jobs show how the run ended. So a
// command that has watched the run to its end knows the end, even if the Job was deleted at once. Otherwise
// returns the objects unchanged.
RunObjects with_ended_jobs(RunObjects objects, const std::map<std::string, nlohmann::json>& last_seen,
                           Time now);

class RunWatcher {
 public:
  // The client must outlive the watcher. Watching starts at once; the constructor does not wait.
  RunWatcher(kube::Client& client, std::string name_space, const std::string& run);
  ~RunWatcher();
  RunWatcher(const RunWatcher&) = delete;
  RunWatcher& operator=(const RunWatcher&) = delete;

  // True if something has changed since the last call, false after `timeout`. Call it from one thread. Throws
  // an ApiError that is final: 401, 403, 404 (a missing right to read events is accepted).
  bool wait_for_change(std::chrono::milliseconds timeout);

  bool synced() const;        // all first lists have arrived
  bool owner_exists() const;  // also false before synced() is true
  RunObjects objects();       // a snapshot, including pods that are gone
  // As objects(), but reads the objects from the server now. Jobs and pods are watched separately, so the end
  // of a Job may be known here before the ends of the pods that caused it. Throws as fetch_run().
  RunObjects read_again();

  // Why the copies have not been current for a minute or longer, for example because the cluster is
  // unreachable. Empty if there is no such trouble. The watcher continues in any case.
  std::string trouble() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk
