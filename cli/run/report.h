// How far a run has come: the newest of what its pods have told, in results that they left when they ended
// and in metrics lines of their logs (CONTRACT.md). Pure.
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
  std::optional<Time> at;  // when that was told at the latest
};

// The newest of all that the pods have told. Where several ranks tell at the same time, the lowest one that
// lives counts.
Report newest_report(const Facts& facts, const RunObjects& objects);

// The newer of two reports. A lower step can be the newer one: a run restored from a checkpoint goes back.
Report newer_of(Report earlier, Report later);

struct LogToRead {
  std::string pod, uid, container;
};

// The logs in which to look for the newest metrics line of a run, the most likely one first; empty when the
// results are already known. At most `most_logs_of_run`.
inline constexpr std::size_t most_logs_of_run = 4;
std::vector<LogToRead> logs_to_read(const RunObjects& objects);

}  // namespace mlk
