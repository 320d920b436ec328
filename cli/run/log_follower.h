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
  Time time{};       // by the clock of the node
  std::string text;  // without the newline, as the program printed it: not safe for a terminal
};

struct LogFilter {
  std::optional<long> tail{};                   // last lines of each rank
  std::optional<std::chrono::seconds> since{};  // not older than this
  std::string role{};                           // empty: all
  std::optional<int> rank{};
  bool lossy = false;  // of RunLogFollower: what nobody takes in time is left out, the oldest lines first
};

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

// A log that does not come.
struct LogProblem {
  std::string pod, node, cause;
};

// Says what is wrong with logs, once for each cause and node, when it has lasted. Pure.
class LogWarnings {
 public:
  using Clock = std::chrono::steady_clock;
  // The sentences that are due, for people. `problems`: those of the moment.
  [[nodiscard]] std::vector<std::string> due(const std::vector<LogProblem>& problems, Clock::time_point now);

 private:
  static constexpr std::chrono::seconds lasting{10};
  using Key = std::pair<std::string, std::string>;  // cause, node
  std::map<Key, Clock::time_point> since_;
  std::set<Key> told_;
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
  // Why there is nothing to see of whose logs, at present.
  std::vector<LogProblem> problems() const;
  // "node n1: what it says of its logs", for people; each sentence once, though many pods are there.
  [[nodiscard]] std::vector<std::string> new_notes();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk
