// The progress of a run: the newest report of its pods, in the results that they left and in the metrics
// lines of their logs (CONTRACT.md). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/util/time.h"

namespace mlk {

struct RunObjects;
struct Facts;

struct Report {
  nlohmann::json result;   // as a result file has it, or null
  std::optional<Time> at;  // the latest time at which it can have been reported
};

// The newest report of all pods. If several ranks reported at the same time, the lowest live one counts.
Report newest_report(const Facts& facts, const RunObjects& objects);

// The newer of two reports. A lower step can be the newer one: a run restored from a checkpoint goes back.
Report newer_of(Report earlier, Report later);

struct LogToRead {
  std::string pod, uid, container;
};

// The logs that may contain the newest metrics line of a run, the most likely one first; empty if the results
// are known. At most `most_logs_of_run`.
inline constexpr std::size_t most_logs_of_run = 4;
std::vector<LogToRead> logs_to_read(const RunObjects& objects);

// The logs of failed pods in whose termination message no error of the program is found (program_error()), in
// the order in which they failed; none of a run whose end is recorded. At most `most_endings_of_run`.
inline constexpr std::size_t most_endings_of_run = 3;
std::vector<LogToRead> endings_to_read(const RunObjects& objects);

}  // namespace mlk
