// The folder by which the server and a pod's supervisor talk: small files, each written at once.
//
//   process.json     server -> supervisor: what to run
//   stop.json        server -> supervisor: end it; SIGTERM to the supervisor says that this is news
//   started.json     supervisor: written before the program starts, and again with its process group after
//   exit.json        how it ended; whoever writes it holds the lock
//   lock             held by the supervisor while it lives
//   log, log.1       output, as containerd writes it
//   termination-log, volumes/
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace mlk::local {

struct Start {
  std::string pod;  // "namespace/name", for people
  long grace_seconds = 30;
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> env;
  std::string working_folder;
};

struct Stop {
  long grace_seconds = 0;
  std::string reason;  // "shutdown" by `mlk local down`: the Job is to restart the pod; else empty
};

struct Started {
  std::string at;   // RFC 3339
  pid_t group = 0;  // 0: not running yet
  long long boot =
      0;  // when the machine started, seconds since 1970: a process group of another boot is not ours
};

struct Exit {
  int code = 0;  // 128 + signal for a program that a signal ended
  int signal = 0;
  std::string at;  // RFC 3339
  std::string started_at;
  std::string reason;  // "StartError": never ran; "Lost": nobody saw the end; "shutdown": as in Stop
  std::string message;
};

class PodFolder {
 public:
  explicit PodFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::string uid() const { return path_.filename(); }

  std::optional<Start> start() const;
  std::optional<Stop> stop() const;
  std::optional<Started> started() const;
  std::optional<Exit> exit() const;
  void write(const Start& start) const;
  void write(const Stop& stop) const;
  void write(const Started& started) const;
  void write(const Exit& exit) const;

  // Process that holds the lock, 0 when nobody does. Only for another process: one's own locks are not seen.
  pid_t supervisor() const;

 private:
  const std::filesystem::path path_;
};

// An advisory lock on a file, held until destruction or the end of the process. The file is opened nowhere
// else in this process: closing any descriptor of it would end the lock.
class FileLock {
 public:
  // Does not wait. `held()` says whether it was free.
  explicit FileLock(const std::filesystem::path& file);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  bool held() const { return held_; }

  static pid_t holder(const std::filesystem::path& file);

 private:
  int fd_;
  bool held_ = false;
};

long long boot_time();

}  // namespace mlk::local
