// Where this process stands in its run: the MLK_* variables of CONTRACT.md, read once and checked.
#pragma once

#include <string>
#include <vector>

namespace mlk::rt {

// Addresses are host:port (an IPv6 host in brackets); paths are as given. Empty: the variable is unset.
struct LaunchEnv {
  std::string run, role;  // role: worker or server
  int rank = 0;
  int failures = 0;  // of this rank before this start, as far as its cluster tells
  std::string address;
  std::vector<std::string> seeds_worker, seeds_server;
  std::string config, data, checkpoints, result, secret_path, incarnation;
  std::string tensorboard;   // folder for event files
  std::string points;        // of a trial of a sweep: the file that has its values
  int trial_index = 0;       // of a trial: its line there, from 0
  int metrics_port = 0;      // 0: nobody asks
  bool unix_sockets = true;  // between processes of one host, unless MLK_TRANSPORT is tcp
  // For how long a process that knows that the run is trained stays for ranks that do not know it yet. The
  // Job controller starts a lost rank again after 10 s at the earliest.
  int late_seconds = 60;
  int threads = 1;  // for the matrix library, from OMP_NUM_THREADS
};

// Reads and checks the environment. Demands MLK_RUN, MLK_ROLE, MLK_RANK, MLK_CONFIG and, of workers,
// MLK_DATA. Throws Failure{bad_configuration} that names the variable.
LaunchEnv read_launch_env();

// Demands what only modes with peers need: MLK_ADDRESS, both seed lists as far as `with_servers` says,
// MLK_SECRET and MLK_INCARNATION. Throws Failure{bad_configuration} that names the variable.
void require_peers(const LaunchEnv& env, bool with_servers);

// MLK_RESULT and MLK_RANK alone: where a message goes when read_launch_env itself fails, and whose it is.
// Empty and 0 if unset or malformed.
std::string result_path_from_env();
int rank_from_env();

}  // namespace mlk::rt
