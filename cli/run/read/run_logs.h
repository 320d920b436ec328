// Reads the present content of the logs of a run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/read/log_reader.h"
#include "cli/run/read/log_sources.h"

namespace mlk {

// Passes the lines to `taker` in the order of time, while the logs are read (read_logs()). Leaves out pods
// without a log (not started, gone, on a lost node). `problems` gets sentences about these pods, the messages
// of nodes about logs, and a sentence for each log whose beginning seems to be deleted. Throws ApiError when
// the cluster cannot be reached or refuses a log.
void read_run_logs(kube::Client& client, const std::string& name_space,
                   const std::vector<nlohmann::json>& pods, const LogFilter& filter, const LogTaker& taker,
                   std::vector<std::string>* problems = nullptr);

// How many last lines of each log to show, so that each rank shows its last `tail` lines. If a rank has
// several logs, this function counts their lines. A log that cannot be read counts as empty.
std::vector<long> count_tails(kube::Client& client, const std::string& name_space,
                              const std::vector<std::pair<LogSource, const nlohmann::json*>>& sources,
                              long tail);

int tail_lines(long lines);  // returns `lines`, limited to what the API accepts

}  // namespace mlk
