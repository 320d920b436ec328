// Reads the progress of a run: the newest report of its pods, from their results and from the metrics lines
// of their logs (CONTRACT.md). Pure.
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
  nlohmann::json result;   // in the form of a result file, or null
  std::optional<Time> at;  // the latest possible time of the report
};

// The newest report of all pods. If several ranks reported at the same time, the report of the lowest live
// rank counts.
Report newest_report(const Facts& facts, const RunObjects& objects);

// Chooses the newer of two reports. The newer report can have a lower step, since a run that is restored from
// a checkpoint repeats steps. If only the earlier report says that the run is done, the earlier report is
// chosen.
Report newer_of(Report earlier, Report later);

struct LogToRead {
  std::string pod, uid, container;
};

// The logs that may contain the newest metrics line of a run, the most likely log first; empty if the results
// are known. Returns at most `most_logs_of_run`.
inline constexpr std::size_t most_logs_of_run = 4;
std::vector<LogToRead> logs_to_read(const RunObjects& objects);

// The logs of failed pods whose termination message has no error of the program (program_error()), in the
// order in which the pods failed. Empty if the end of the run is recorded. Returns at most
// `most_endings_of_run`.
inline constexpr std::size_t most_endings_of_run = 3;
std::vector<LogToRead> endings_to_read(const RunObjects& objects);

}  // namespace mlk
