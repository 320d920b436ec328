// Keeps the reports of a sweep's trials while another process runs them: writes the ledger as trials end, so
// that nothing is lost with their pods.
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
  // References must outlive it.
  Harvester(kube::Client& client, const std::string& name_space) : client_(client), name_space_(name_space) {}

  // Reads the logs of trials that have ended without a result, each once, and writes what is new into the
  // ledger, best effort; at most every five seconds. `status`: as observed from `objects`.
  void look(const SweepObjects& objects, SweepStatus& status);

  // Whether another look is due, even if nothing has changed since the last one.
  bool is_due() const;

 private:
  kube::Client& client_;
  const std::string& name_space_;
  std::map<int, Trial> told_;  // what logs have told, by the number of the trial
  std::chrono::steady_clock::time_point last_{};
  int ended_ = 0;
  bool has_more_ = false;
};

}  // namespace mlk::sweeps
