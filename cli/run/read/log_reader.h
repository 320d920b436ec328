// Reads several logs from their beginning to their end of now, and gives their lines in the order of time
// while they come.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/kube/client.h"
#include "cli/kube/logs.h"
#include "cli/run/read/log_sources.h"

namespace mlk {

// Who takes the lines, in the thread that reads.
struct LogTaker {
  std::function<bool(RunLogLine)> line;  // false: no more of them
  std::function<bool()> pause{};  // before a wait: print what was taken; false: no more lines. May be empty
};

// One log that is read, and what became of it.
struct LogRead {
  LogSource source;
  kube::LogOptions options;
  kube::StreamEnd end{200, "", ""};     // how it ended; 0 as well for one that was given up
  std::set<std::string> said{};         // by the node, in place of lines
  std::size_t bytes = 0;                // of its lines, with their times
  std::optional<Time> first{}, last{};  // the times of its lines
};

// A log of which all is wanted is asked for its first 32 KiB, and then for the rest, so that the first lines
// of all logs are here at once. Of broken logs the reading goes on for 10 s. At most 16 MB are held: a log
// that is ahead of the others is let go, and read on when it is its turn. When nothing has come for 2 s,
// those that are silent do not hold up the others any more; one that is silent for `longest_silence` is
// opened again. Throws nothing: `logs` tell of failures.
void read_logs(kube::Client& client, const std::string& name_space, std::vector<LogRead>& logs,
               const LogTaker& taker, std::chrono::milliseconds longest_silence = std::chrono::seconds(30));

}  // namespace mlk
