// Follows the logs of all ranks of a run as one log, in the order of time.
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

// Sorts lines of several streams by their times. A line is held back for `window`, so that earlier lines of
// other streams may arrive. Lines of one stream keep their order of arrival. The clocks of nodes differ, so
// the order of time is not exact.
class LogMerger {
 public:
  using Clock = std::chrono::steady_clock;
  explicit LogMerger(std::chrono::milliseconds window = std::chrono::milliseconds(300)) : window_(window) {}

  void push(int stream, RunLogLine line, Clock::time_point arrived);
  [[nodiscard]] std::vector<RunLogLine> take(Clock::time_point now);  // the lines that are due
  [[nodiscard]] std::vector<RunLogLine> take_all();
  void drop_first() { held_.erase(held_.begin()); }  // requires a held line
  std::size_t size() const { return held_.size(); }

 private:
  struct Held {
    RunLogLine line;
    Clock::time_point arrived;
  };
  std::chrono::milliseconds window_;
  std::map<int, Time> newest_;  // by stream
  std::multimap<std::pair<Time, int>, Held>
      held_;  // by time, then stream; equal keys in the order of arrival
};

// Follows all ranks, also ranks that start later and pods that replace lost pods. The client must outlive the
// follower.
class RunLogFollower {
 public:
  RunLogFollower(kube::Client& client, std::string name_space, LogFilter filter);
  ~RunLogFollower();
  RunLogFollower(const RunLogFollower&) = delete;
  RunLogFollower& operator=(const RunLogFollower&) = delete;

  // Call it with the present pods after every change and about once a second, from the thread that calls
  // take().
  void update(const std::vector<nlohmann::json>& pods);
  // The lines that are due, in order. Call it often: lines stay in memory until a call of take(). If 100000
  // lines are held, the follower closes the streams until half of the lines are taken. With a lossy filter,
  // it drops the oldest lines instead.
  [[nodiscard]] std::vector<RunLogLine> take();
  // True if every pod given to update() has ended and its last line has arrived. Then take() returns the
  // rest.
  [[nodiscard]] bool finished() const;
  // The uids of the pods that finished() still waits for.
  std::set<std::string> unfinished() const;
  // The logs that show no lines at present, with the cause of each.
  std::vector<LogProblem> problems() const;
  // New warnings about the logs, for people. Each sentence is returned once. The warnings are messages of
  // nodes, and sentences about logs that do not arrive. With `going_on`, only the logs that have not arrived
  // for 10 s get a sentence; with `at_end`, all logs that do not arrive.
  enum class When { going_on, at_end };
  [[nodiscard]] std::vector<std::string> new_warnings(When when);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk
