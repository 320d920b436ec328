// Whose logs are read for a run: the program's of each pod, and that of a container before it that failed.
// Pure.
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
  int attempt = 1;  // of the rank: its second pod says 2
  std::string pod, uid;
  std::string container{};  // that of the program: empty
  Time time{};              // by the clock of the node
  std::string text;         // without the newline, as the program printed it: not safe for a terminal
};

struct LogFilter {
  std::optional<long> tail{};                   // last lines of each rank
  std::optional<std::chrono::seconds> since{};  // not older than this
  std::string role{};                           // empty: all
  std::optional<int> rank{};
  std::string container{};  // of each pod; empty: the program's, and one before it that failed
  bool lossy = false;  // of RunLogFollower: what nobody takes in time is left out, the oldest lines first
};

// Whose log it is; the line's text and time are filled in later.
struct LogSource {
  RunLogLine who;
  std::string container, node;
};

// The containers of a pod whose logs are read. `wanted`: that one alone, none if the pod has none of that
// name. Else main, unless the pod has ended before its start; and the container before main that failed.
std::vector<std::string> containers_to_read(const nlohmann::json& pod, const std::string& wanted);

// With the pods, in their order.
std::vector<std::pair<LogSource, const nlohmann::json*>> choose_sources(
    const std::vector<nlohmann::json>& pods, const LogFilter& filter);

// The names of all containers of these pods, each once: main first.
std::vector<std::string> container_names(const std::vector<nlohmann::json>& pods);

RunLogLine line_of(const LogSource& source, Time time, std::string text);

// Those that share their rank with another one: the last lines of such a rank can be told only when its logs
// were counted.
std::vector<bool> shares_rank(const std::vector<LogSource>& sources);

// How many of its last lines each log may give, that is to show the last `tail` of each rank, given how many
// lines each holds (at least, up to `tail`). The newest pod goes first, and of a pod the container that
// started last. Sources, counts and the answer in one order.
std::vector<long> tails_of(const std::vector<LogSource>& sources, const std::vector<long>& counts, long tail);

}  // namespace mlk
