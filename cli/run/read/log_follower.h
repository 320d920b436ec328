// The logs of all ranks of a run as one, in the order of time.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/read/log_sources.h"
#include "cli/run/read/log_warnings.h"
#include "cli/util/time.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

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
  // Why there is nothing to see of whose logs, at present.
  std::vector<LogProblem> problems() const;
  // What is to be said of these logs, for people, each sentence once: what nodes say of them, and which have
  // not come for a while; at the end, all that have not come.
  enum class When { going_on, at_end };
  [[nodiscard]] std::vector<std::string> new_warnings(When when);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk
