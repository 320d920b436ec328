// What is said of logs that do not come, or that lack something. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/run/read/log_sources.h"
#include "cli/run/state/status.h"

namespace mlk {

// A log that does not come.
struct LogProblem {
  std::string pod, node, cause;
};

// A sentence for each cause and node, for people.
std::vector<std::string> sentences_of(const std::vector<LogProblem>& problems);

// Says it of logs that are followed, once for each cause and node.
class LogWarnings {
 public:
  using Clock = std::chrono::steady_clock;
  // `problems`: those of the moment. The sentences of those that have lasted for 10 s.
  [[nodiscard]] std::vector<std::string> due(const std::vector<LogProblem>& problems, Clock::time_point now);
  // At the end: of all of them.
  [[nodiscard]] std::vector<std::string> rest(const std::vector<LogProblem>& problems);

 private:
  static constexpr std::chrono::seconds lasting{10};
  using Key = std::pair<std::string, std::string>;  // cause, node
  std::map<Key, Clock::time_point> since_;
  std::set<Key> told_;
};

// "node n1: " and what the node says of the log.
std::string said_by_node(const std::string& node, const std::string& pod, const std::string& said);

// The ranks that had pods, and have none among these any more, with a sentence for each; with one for all if
// they are many.
std::vector<std::string> lost_logs(const RunStatus& status, const std::vector<nlohmann::json>& pods,
                                   const LogFilter& filter);

// What a log shows of itself: its lines came within `span`, `before` after its container had started.
struct LogShape {
  std::size_t bytes = 0;
  std::chrono::milliseconds before{}, span{};
};

// Whether its node has probably deleted the beginning: a node keeps the newest 10 MiB of a log or so, and
// does not say when it has deleted others. At the rate of what is left, more than that would have been said
// before.
bool seems_cut(const LogShape& shape);

}  // namespace mlk
