// Makes the warnings about logs that do not arrive or are incomplete. Pure.
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

// A log that does not arrive.
struct LogProblem {
  std::string pod, node, cause;
};

// A sentence for each cause and node, for people.
std::vector<std::string> sentences_of(const std::vector<LogProblem>& problems);

// The warnings about logs that are followed, once for each cause and node.
class LogWarnings {
 public:
  using Clock = std::chrono::steady_clock;
  // `problems`: the present problems. Returns the sentences for the problems that have lasted for 10 s.
  [[nodiscard]] std::vector<std::string> due(const std::vector<LogProblem>& problems, Clock::time_point now);
  // Call it at the end: returns the sentences for all problems that were not reported yet.
  [[nodiscard]] std::vector<std::string> rest(const std::vector<LogProblem>& problems);

 private:
  static constexpr std::chrono::seconds lasting{10};
  using Key = std::pair<std::string, std::string>;  // cause, node
  std::map<Key, Clock::time_point> since_;
  std::set<Key> told_;
};

// The message of a node about a log, with "node n1: " before it, or with the name of the pod if the node is
// unknown.
std::string said_by_node(const std::string& node, const std::string& pod, const std::string& said);

// A sentence for each rank that had pods but has no pod in `pods` any more. If there are many such ranks: one
// sentence for all of them.
std::vector<std::string> lost_logs(const RunStatus& status, const std::vector<nlohmann::json>& pods,
                                   const LogFilter& filter);

// The measures of a log. `before`: the time from the start of the container to the first line of the log.
// `span`: the time from the first line to the last line.
struct LogShape {
  std::size_t bytes = 0;
  std::chrono::milliseconds before{}, span{};
};

// Whether the node has probably deleted the beginning of the log. A node keeps about the newest 10 MiB of a
// log, and does not report that it has deleted older lines. True if the program, at the rate at which it
// printed the lines in the log, would have printed 8 MiB or more before the first of these lines.
bool seems_cut(const LogShape& shape);

}  // namespace mlk
