// What the logs of a run hold now.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/read/log_reader.h"
#include "cli/run/read/log_sources.h"

namespace mlk {

// Gives their lines in the order of time, while they are read (read_logs()). Pods that have no log (not
// started, gone, on a lost node) are left out, with sentences in `problems`; there also what nodes say of
// their logs, and what they seem to have deleted of them. Throws ApiError when the cluster cannot be reached
// or refuses.
void read_run_logs(kube::Client& client, const std::string& name_space,
                   const std::vector<nlohmann::json>& pods, const LogFilter& filter, const LogTaker& taker,
                   std::vector<std::string>* problems = nullptr);

// The same, all at once.
std::vector<RunLogLine> read_run_logs(kube::Client& client, const std::string& name_space,
                                      const std::vector<nlohmann::json>& pods, const LogFilter& filter,
                                      std::vector<std::string>* problems = nullptr);

// How many of its last lines each of these logs may give, that is to show the last `tail` of each rank. The
// logs of ranks that have several are counted for that. A log that cannot be read counts as empty.
std::vector<long> count_tails(kube::Client& client, const std::string& name_space,
                              const std::vector<std::pair<LogSource, const nlohmann::json*>>& sources,
                              long tail);

int tail_lines(long lines);  // as the API takes it

}  // namespace mlk
