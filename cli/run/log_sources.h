// Which logs the ranks of a run have.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/log_follower.h"
#include "cli/run/status.h"

namespace mlk {

// Whose log it is; the line's text and time are filled in later.
struct LogSource {
  RunLogLine who;
  std::string uid, container, node;
};

// Those that the filter lets pass, in the order of the pods, which must outlive the answer.
std::vector<std::pair<LogSource, const nlohmann::json*>> choose_sources(
    const std::vector<nlohmann::json>& pods, const LogFilter& filter);

RunLogLine line_of(const LogSource& source, Time time, std::string text);

// With `tail` a rank shows its last lines, though several pods had it: how many may come from each pod, given
// how many its log holds (at least, up to `tail`). The newest pod goes first. Sources and counts in one
// order. Pure.
std::vector<long> tails_of(const std::vector<LogSource>& sources, const std::vector<long>& counts,
                           long tail);

// The ranks that had pods and have none any more, with a sentence for each; with one for all if there are
// many. Pure.
std::vector<std::string> lost_logs(const RunStatus& status, const RunObjects& objects,
                                   const LogFilter& filter);

// Those that share a rank with another one of them: only for these has the log to be counted first. Pure.
std::vector<bool> shares_rank(const std::vector<LogSource>& sources);

}  // namespace mlk
