// Runs pods: binds them to the node, starts and stops their supervisors, and writes their status.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include "cli/local/node/addresses.h"
#include "cli/local/node/localise.h"
#include "cli/local/node/pod_folder.h"
#include "cli/local/node/pod_log.h"
#include "cli/local/state/state_folder.h"
#include "cli/local/state/store.h"
#include "cli/util/time.h"

namespace mlk::local {

// For one thread.
class Kubelet {
 public:
  // gpus: the GPUs that the kubelet may give to pods, named as in CUDA_VISIBLE_DEVICES.
  Kubelet(Store& store, PodLogs& logs, const Paths& paths, std::filesystem::path program,
          std::vector<std::string> gpus = {});

  void notice(const std::string& uid);  // the supervisor of this pod has news
  // Syncs processes and objects. `sweep`: also reads the folders of pods that have sent no notice, removes
  // the folders of pods that are gone, and forgets addresses that no pod uses any more.
  void step(Time now, bool sweep);

 private:
  struct Local {
    enum class Stage { waiting, starting, running, ended } stage = Stage::waiting;
    pid_t child = 0;       // supervisor that this server started and has not reaped
    long stop_grace = -1;  // the last grace period that was sent to the supervisor
    bool has_news = true;  // the pod's folder may have new records
    std::string trouble;   // how the supervisor ended, if it did not start the program
    int attempts = 0;      // number of attempts to start a supervisor
    Time retry{};          // time of the next attempt
  };

  void schedule(const json& pod, Time now);
  void step_pod(const json& pod, Time now, bool sweep);
  void start(const json& pod, Local& local, Time now);
  void start_supervisor(const json& pod, Local& local, Time now);
  void hold_up(const json& pod, const std::string& reason, const std::string& message, Time now);
  void sync(const json& pod, Local& local, Time now);
  void stop(const json& pod, Local& local, const Stop& how, Time now);
  void enforce_deadline(const json& pod, Local& local, Time now);
  void finish_deleted(const json& pod);
  bool declare_lost(const PodFolder& folder);
  void clear_up();
  void remove_strays(const std::set<std::string>& known);
  void reap();

  Process localised(const json& pod);
  bool has_other_pods(const json& pod, const std::string& service) const;  // other pods that run or start
  void write_files(const json& pod, const Process& process);
  std::string termination_message(const json& pod, const Exit& exit) const;
  void set_status(const json& pod, const json& status);
  void event(const json& pod, const std::string& type, const std::string& reason, const std::string& message,
             Time now);

  Store& store_;
  PodLogs& logs_;
  const Paths paths_;
  const std::filesystem::path program_;
  const std::vector<std::string> gpus_;
  Addresses addresses_;
  std::map<std::string, Local> pods_;  // by uid
  std::set<pid_t> strays_;             // supervisors of pods that are gone, to be reaped
};

}  // namespace mlk::local
