// The folder through which the server and a pod's supervisor communicate. Each file of JSON is replaced as a
// whole, so readers never see a part of it.
//
//   process.json     server -> supervisor: what to run
//   stop.json        server -> supervisor: end the program. SIGTERM signals that the file is new. Without
//                    the file (the disk is full), SIGTERM means a shutdown
//   started.json     supervisor -> server: written before the program starts, and again after the start, with
//                    the program's process group
//   exit.json        how the program ended; only the holder of the lock writes this file
//   lock             held by the supervisor while it lives
//   log, log.1       output, in containerd's format
//   termination-log  written by the program: its termination message
//   volumes/         the pod's own volumes
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "cli/local/node/processes.h"
#include "cli/local/state/file_lock.h"

namespace mlk::local {

struct Start {
  std::string pod;  // "namespace/name", for people
  long grace_seconds = 30;
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> env;
  std::string working_folder;
};

// Reason of a Stop and an Exit: the whole cluster shuts down, and the Job restarts the pod when the cluster
// is up again.
constexpr char shutdown_reason[] = "shutdown";

// Another reason of a Stop and an Exit: the pod has run for activeDeadlineSeconds. The status of the pod has
// this reason, too.
constexpr char deadline_reason[] = "DeadlineExceeded";

struct Stop {
  long grace_seconds = 0;
  std::string reason;  // shutdown_reason, deadline_reason or empty
};

struct Started {
  std::string at;        // RFC 3339
  pid_t group = 0;       // 0: the program does not run yet
  ProcessId supervisor;  // its process id is the number of the session of the program
};

struct Exit {
  int code = 0;  // 128 + signal for a program that was ended by a signal
  int signal = 0;
  std::string at;  // RFC 3339
  std::string started_at;
  std::string reason;  // "StartError": never ran; "Lost": no record of the end; or as in Stop
  std::string message;
};

class PodFolder {
 public:
  explicit PodFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::string uid() const { return path_.filename(); }

  // A missing or unreadable record is nullopt.
  std::optional<Start> start() const;
  std::optional<Stop> stop() const;
  std::optional<Started> started() const;
  std::optional<Exit> exit() const;
  void write(const Start& start) const;
  void write(const Stop& stop) const;
  void write(const Started& started) const;
  void write(const Exit& exit) const;

  std::filesystem::path lock() const { return path_ / "lock"; }
  // The holder of the lock. The holder itself must not call this function, since a process cannot see its own
  // locks.
  Holder supervisor() const { return FileLock::holder(lock()); }

  // Writes stop.json, and signals the supervisor if a supervisor runs on this machine. On a full disk, only
  // sends the signal. False if the supervisor has ended or is on another machine, so that it could not be
  // signalled.
  bool ask_to_stop(const Stop& stop) const;

  // A variable in the environment of the program, and of everything that it starts.
  std::string mark() const { return "MLK_LOCAL_POD=" + uid(); }

 private:
  const std::filesystem::path path_;
};

}  // namespace mlk::local
