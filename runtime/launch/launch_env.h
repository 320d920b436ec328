// The place of this process in its run: the MLK_* variables of CONTRACT.md, read once and checked.
#pragma once

#include <string>
#include <vector>

namespace mlk::rt {

// Addresses are host:port (an IPv6 host in brackets); paths are as given. Empty: the variable is unset.
struct LaunchEnv {
  std::string run, role;  // role: worker or server
  int rank = 0;           // of this process, not of its pod
  int failures = 0;       // earlier failures of this rank; 0 if the cluster does not report them
  std::string address;
  std::vector<std::string> seeds_worker, seeds_server;
  std::string config, data, weights, checkpoints, result, secret_path, incarnation;
  std::string tensorboard;   // folder for event files
  std::string points;        // of a trial: the file with its parameter values
  int trial_index = 0;       // of a trial: the index of its line in that file, from 0
  int metrics_port = 0;      // 0: no metrics are served
  bool unix_sockets = true;  // between processes of one host, unless MLK_TRANSPORT is tcp
  // How many seconds a process stays after it has learnt that the run is trained, for ranks that do not know
  // this yet. The Job controller restarts a lost rank after 10 s at the earliest.
  int late_seconds = 60;
  int threads = 1;          // for one operation on CPUs: this process's part of OMP_NUM_THREADS
  int gpus = 0;             // of the pod; a process computes with at most one of them
  int local_rank = 0;       // among the processes of the pod; also the number of the GPU of this process
  std::string gpu_library;  // the path of the plugin, if it is not beside the program
};

// The most GPUs that a pod may have.
inline constexpr int most_gpus = 16;

// Reads and checks the environment. With several GPUs, MLK_RANK counts pods. Then process i of pod p has rank
// p * gpus + i, its port is the pod's port plus i, and the seeds are those of all processes. Requires
// MLK_RUN, MLK_ROLE, MLK_RANK and MLK_CONFIG, and for workers MLK_DATA. Throws Failure{bad_configuration}
// that names the variable.
LaunchEnv read_launch_env();

// Requires the variables that only modes with peers need: MLK_ADDRESS, MLK_SEEDS_WORKER (and MLK_SEEDS_SERVER
// if `with_servers`), MLK_SECRET and MLK_INCARNATION. Throws Failure{bad_configuration} that names the
// variable.
void require_peers(const LaunchEnv& env, bool with_servers);

// Each reads one variable alone, so it works even if read_launch_env() fails: MLK_RESULT (empty if unset),
// and MLK_RANK (0 if unset or malformed).
std::string result_path_from_env();
int rank_from_env();

}  // namespace mlk::rt
