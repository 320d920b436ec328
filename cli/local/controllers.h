// The one loop behind the API. The loop runs the Job controller, the kubelet, the garbage collector and the
// expiry of events. Changes of objects, notices of supervisors and the clock wake the loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>

#include "cli/local/node/kubelet.h"
#include "cli/local/state/store.h"

namespace mlk::local {

class Controllers {
 public:
  // Starts the loop. Throws Error{failure} when the fifo cannot be made or opened.
  Controllers(Store& store, PodLogs& logs, const Paths& paths, std::filesystem::path program,
              std::vector<std::string> gpus = {});
  ~Controllers();  // ends the loop; the pods continue to run
  Controllers(const Controllers&) = delete;
  Controllers& operator=(const Controllers&) = delete;

 private:
  void run();
  bool something_goes();
  void read_notices();
  void wake();

  Store& store_;
  Kubelet kubelet_;
  std::string notices_;     // the incomplete last line of the fifo
  std::uint64_t seen_ = 0;  // the version up to which something_goes() has read
  int fifo_ = -1;
  int wake_[2] = {-1, -1};
  std::atomic<bool> woken_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace mlk::local
