// The folder by which the server and a pod's supervisor talk: small files, each written at once.
//
//   process.json     server -> supervisor: what to run
//   stop.json        server -> supervisor: end it; SIGTERM to the supervisor says that this is news, and
//   without
//                    the file (the disk is full) it means a shutdown
//   started.json     supervisor: written before the program starts, and again with its process group after
//   exit.json        how it ended; whoever writes it holds the lock
//   lock             held by the supervisor while it lives
//   log, log.1       output, as containerd writes it
//   termination-log, volumes/
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

// Of a Stop and an Exit: the whole cluster goes down, and the Job is to restart the pod when it is up again.
constexpr char shutdown_reason[] = "shutdown";

// Likewise: the pod has run for activeDeadlineSeconds. Also the reason in its status.
constexpr char deadline_reason[] = "DeadlineExceeded";

struct Stop {
  long grace_seconds = 0;
  std::string reason;  // one of the above, or empty
};

struct Started {
  std::string at;        // RFC 3339
  pid_t group = 0;       // 0: not running yet
  ProcessId supervisor;  // its number is that of the session in which the program began
};

struct Exit {
  int code = 0;  // 128 + signal for a program that a signal ended
  int signal = 0;
  std::string at;  // RFC 3339
  std::string started_at;
  std::string reason;  // "StartError": never ran; "Lost": nobody saw the end; or as in Stop
  std::string message;
};

class PodFolder {
 public:
  explicit PodFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::string uid() const { return path_.filename(); }

  // A record that is missing, or that no mlk has written, is none.
  std::optional<Start> start() const;
  std::optional<Stop> stop() const;
  std::optional<Started> started() const;
  std::optional<Exit> exit() const;
  void write(const Start& start) const;
  void write(const Stop& stop) const;
  void write(const Started& started) const;
  void write(const Exit& exit) const;

  std::filesystem::path lock() const { return path_ / "lock"; }
  // Who holds the lock. Only for another process: one's own locks are not seen.
  Holder supervisor() const { return FileLock::holder(lock()); }

  // Writes stop.json and tells the supervisor, if there is one on this machine. It is told on a full disk
  // too. False when it could not be told: it is on another machine, or has ended.
  bool ask_to_stop(const Stop& stop) const;

  // In the environment of what runs in the pod, and of what that starts.
  std::string mark() const { return "MLK_LOCAL_POD=" + uid(); }

 private:
  const std::filesystem::path path_;
};

}  // namespace mlk::local
