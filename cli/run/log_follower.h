// The logs of all ranks of a run as one, in the order of time.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/util/time.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

struct RunLogLine {
  std::string role;
  int rank = 0;
  int attempt = 1;  // of the rank: its second pod says 2
  std::string pod, uid;
  std::string container{};  // that of the program: empty
  Time time{};              // by the clock of the node
  std::string text;         // without the newline, as the program printed it: not safe for a terminal
};

struct LogFilter {
  std::optional<long> tail{};                   // last lines of each rank
  std::optional<std::chrono::seconds> since{};  // not older than this
  std::string role{};                           // empty: all
  std::optional<int> rank{};
  std::string container{};  // of each pod; empty: the program's, and one before it that failed
  bool lossy = false;  // of RunLogFollower: what nobody takes in time is left out, the oldest lines first
};

// What the logs hold now, sorted by time. Pods that have no log (not started, gone, on a lost node) are left
// out, each with a line in `problems`. Throws ApiError when the cluster cannot be reached or refuses.
std::vector<RunLogLine> read_run_logs(kube::Client& client, const std::string& name_space,
                                      const std::vector<nlohmann::json>& pods, const LogFilter& filter,
                                      std::vector<std::string>* problems = nullptr);

// Brings lines of several streams into the order of their times. A line is held back for `window`, so that
// earlier ones of other streams may arrive; within a stream the order of arrival stays. Clocks of nodes
// differ: no order is total.
class LogMerger {
 public:
  using Clock = std::chrono::steady_clock;
  explicit LogMerger(std::chrono::milliseconds window = std::chrono::milliseconds(300)) : window_(window) {}

  void push(int stream, RunLogLine line, Clock::time_point arrived);
  [[nodiscard]] std::vector<RunLogLine> take(Clock::time_point now);  // those that are due
  [[nodiscard]] std::vector<RunLogLine> take_all();
  void drop_first() { held_.erase(held_.begin()); }  // there is one
  std::size_t size() const { return held_.size(); }

 private:
  struct Held {
    RunLogLine line;
    Clock::time_point arrived;
  };
  std::chrono::milliseconds window_;
  std::map<int, Time> newest_;  // by stream
  std::multimap<std::pair<Time, int>, Held>
      held_;  // by time, then stream; equal ones in the order of arrival
};

// Follows all ranks, also those that start later and the pods that replace lost ones. The client must outlive
// it.
class RunLogFollower {
 public:
  RunLogFollower(kube::Client& client, std::string name_space, LogFilter filter);
  ~RunLogFollower();
  RunLogFollower(const RunLogFollower&) = delete;
  RunLogFollower& operator=(const RunLogFollower&) = delete;

  // Call with RunWatcher's pods after every change and about once a second; from the thread that calls
  // take().
  void update(const std::vector<nlohmann::json>& pods);
  // Lines that are due, in order. Call often: lines are held in memory until they are taken. At 100000 lines
  // the streams are ended until half of the lines are taken; with a lossy filter the oldest are dropped.
  [[nodiscard]] std::vector<RunLogLine> take();
  // True if every pod given to update() has ended and its last line has come; take() then returns the rest.
  [[nodiscard]] bool finished() const;
  // The uids of the other pods.
  std::set<std::string> unfinished() const;
  // "pod: why there is nothing to see", for people.
  std::vector<std::string> problems() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk
