// Chooses the logs that are read for a run: the log of each pod's program, and the log of a container that
// failed before the program started. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/util/time.h"

namespace mlk {

struct RunLogLine {
  std::string role;
  int rank = 0;
  int attempt = 1;  // which pod of the rank: 2 for its second pod
  std::string pod, uid;
  std::string container{};  // empty for the program's container
  Time time{};              // the time of the line, by the clock of its node
  std::string text;         // without the newline, as the program printed it: not safe for a terminal
};

struct LogFilter {
  std::optional<long> tail{};                   // how many of the last lines of each rank
  std::optional<std::chrono::seconds> since{};  // no lines older than this
  std::string role{};                           // empty: all
  std::optional<int> rank{};
  std::string container{};  // empty: `main`, and a container that failed before `main` started
  bool lossy = false;       // for RunLogFollower: drop the oldest lines if nobody takes them in time
};

// The origin of a log. In `who`, the text and the time of the line are filled in later.
struct LogSource {
  RunLogLine who;
  std::string container, node;
};

// Chooses the logs to read, in the order of the pods, each with its pod. If the filter names a container,
// chooses the log of this container in each pod that has it. Otherwise chooses in each pod the log of `main`,
// unless the pod ended before `main` started; and also the log of a container that failed before `main`
// started, if there is one.
std::vector<std::pair<LogSource, const nlohmann::json*>> choose_sources(
    const std::vector<nlohmann::json>& pods, const LogFilter& filter);

// The names of all containers of these pods, each once: the programs' containers first.
std::vector<std::string> container_names(const std::vector<nlohmann::json>& pods);

RunLogLine line_of(const LogSource& source, Time time, std::string text);

// For each source, whether another source has the same rank. To find the last lines of such a rank, mlk has
// to count the lines of its logs first.
std::vector<bool> shares_rank(const std::vector<LogSource>& sources);

// How many last lines of each log to show, so that each rank shows its last `tail` lines. `counts`: how many
// lines each log holds, counted up to `tail`. The lines are taken from the newest pod first, and within a pod
// first from the container that started last. `sources`, `counts` and the result are in the same order.
std::vector<long> tails_of(const std::vector<LogSource>& sources, const std::vector<long>& counts, long tail);

}  // namespace mlk
