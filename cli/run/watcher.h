// All objects of one run, kept current.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/run/status.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

// What pods were when they went: the Job controller deletes failed pods of a Job that ends, and with them the
// reason.
class PodMemory {
 public:
  static constexpr std::size_t most_pods = 10000;

  // As it was when it went, whatever was seen of it before.
  void remember(const nlohmann::json& pod);

  // Call with all pods of the run after every change. Returns them and those that are gone, as they last
  // were; of those, one that had not ended is made a failed one.
  std::vector<nlohmann::json> with_gone(std::vector<nlohmann::json> pods);

 private:
  std::map<std::string, nlohmann::json> last_seen_;  // by uid
};

class RunWatcher {
 public:
  // The client must outlive the watcher. Watching starts at once; nothing is waited for.
  RunWatcher(kube::Client& client, std::string name_space, std::string run);
  ~RunWatcher();
  RunWatcher(const RunWatcher&) = delete;
  RunWatcher& operator=(const RunWatcher&) = delete;

  // True when something has changed since the last call, false after `timeout`. For one thread.
  // Throws the ApiError that is final: 401, 403 (events alone may be forbidden).
  bool wait_for_change(std::chrono::milliseconds timeout);

  bool synced() const;        // all first lists have arrived
  bool owner_exists() const;  // false too before it is synced
  RunObjects objects();       // a snapshot, with the pods that are gone meanwhile
  // The same, asked for now. Jobs and pods are watched apart: the end of a Job may be known here before those
  // of its pods are, which it follows from. Throws as fetch_run().
  RunObjects read_again();

  // What keeps it from being current for a minute or longer (the cluster cannot be reached); empty when all
  // is well. It goes on trying by itself.
  std::string trouble() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk
