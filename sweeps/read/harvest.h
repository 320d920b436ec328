// Stores the reports of a sweep's trials while another process runs the trials. Writes the ledger soon after
// trials have ended, since their reports are deleted with the pods.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "sweeps/trials/observe.h"

namespace mlk::kube {
class Client;
}

namespace mlk::sweeps {

class Harvester {
 public:
  // The client and the name must outlive this object.
  Harvester(kube::Client& client, const std::string& name_space) : client_(client), name_space_(name_space) {}

  // Reads the logs of ended trials without an objective, each log once, and writes new reports into the
  // ledger, best effort. Does so at most every five seconds. `status`: as observed from `objects`.
  void collect(const SweepObjects& objects, SweepStatus& status);

  // Whether collect() has more to do, even if nothing has changed since its last call.
  bool is_due() const;

 private:
  kube::Client& client_;
  const std::string& name_space_;
  std::map<int, Trial> told_;  // the reports that were read so far, by the number of the trial
  std::chrono::steady_clock::time_point last_{};
  int ended_ = 0;
  bool has_more_ = false;
};

}  // namespace mlk::sweeps
