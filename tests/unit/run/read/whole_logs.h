// Reads the logs of a run, and keeps their lines.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/run/read/run_logs.h"

namespace mlk {

// As the function of run_logs.h, but returns all lines at once.
inline std::vector<RunLogLine> read_run_logs(kube::Client& client, const std::string& name_space,
                                             const std::vector<nlohmann::json>& pods, const LogFilter& filter,
                                             std::vector<std::string>* problems = nullptr) {
  std::vector<RunLogLine> lines;
  const LogTaker taker{.line = [&](RunLogLine line) {
    lines.push_back(std::move(line));
    return true;
  }};
  read_run_logs(client, name_space, pods, filter, taker, problems);
  return lines;
}

}  // namespace mlk
