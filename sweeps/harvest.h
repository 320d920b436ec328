// Keeping what the trials of a sweep tell, while others run them: the ledger is written as trials end, so
// that nothing is lost when their pods go.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "sweeps/observe.h"

namespace mlk::kube {
class Client;
}

namespace mlk::sweeps {

class Harvester {
 public:
  // References must outlive it.
  Harvester(kube::Client& client, const std::string& name_space) : client_(client), name_space_(name_space) {}

  // Reads the logs of trials that have ended without a result, each once, and writes into the ledger what is
  // not there yet, best effort; at most every five seconds. `status`: as observed of `objects`.
  void look(const SweepObjects& objects, SweepStatus& status);

  // Whether it is time for another look, though nothing has changed since the last one.
  bool is_due() const;

 private:
  kube::Client& client_;
  const std::string& name_space_;
  std::map<int, Trial> told_;  // what logs have told, by the trial's number
  std::chrono::steady_clock::time_point last_{};
  int ended_ = 0;
  bool has_more_ = false;
};

}  // namespace mlk::sweeps
