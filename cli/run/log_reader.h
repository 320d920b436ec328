// Reads what the logs of a run hold now, and gives the lines in the order of time while they come.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/log_sources.h"

namespace mlk {

// Who takes the lines, in the thread that reads.
struct LogTaker {
  std::function<bool(RunLogLine)> line;  // false: no more of them
  std::function<bool()> pause{};         // before a wait: print what was taken; false: no more lines. May be empty
};

// Pods that have no log (not started, gone, on a lost node) are left out, each with a line in `problems`;
// there also what a node says of its logs, and what it seems to have deleted of them. At most 16 MB are held:
// a log that is ahead of the others is let go, and read on when it is its turn. One that is silent for 2 s
// does not hold up the others. Throws ApiError when the cluster cannot be reached or refuses.
void read_run_logs(kube::Client& client, const std::string& name_space,
                   const std::vector<nlohmann::json>& pods, const LogFilter& filter, const LogTaker& taker,
                   std::vector<std::string>* problems = nullptr);

// The same, all at once.
std::vector<RunLogLine> read_run_logs(kube::Client& client, const std::string& name_space,
                                      const std::vector<nlohmann::json>& pods, const LogFilter& filter,
                                      std::vector<std::string>* problems = nullptr);

// How many of its last lines each log may give, that is to show the last `filter.tail` of each rank: the logs
// of ranks that had several pods are counted for that.
std::vector<long> count_tails(kube::Client& client, const std::string& name_space,
                              const std::vector<std::pair<LogSource, const nlohmann::json*>>& sources,
                              const LogFilter& filter);

// What a log shows of itself: its lines came within `span`, `before` after its container had started.
struct LogShape {
  std::size_t bytes = 0;
  std::chrono::milliseconds before{}, span{};
};

// Whether its node has probably deleted the beginning: a node keeps the newest 10 MiB of a log or so, and does
// not say when it has deleted others. At the rate of what is left, more than that would have been said
// before. Pure.
bool seems_cut(const LogShape& shape);

}  // namespace mlk
