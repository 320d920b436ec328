// Reads several logs from their beginning to their present end, and returns their lines in the order of time
// while they arrive.
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

// The receiver of the lines, called in the thread that reads.
struct LogTaker {
  // Each returns false to end the reading. `pause` may be empty; it is called before a wait, to print lines.
  std::function<bool(RunLogLine)> line;
  std::function<bool()> pause{};
};

// One log to read, and the result.
struct LogRead {
  LogSource source;
  kube::LogOptions options;
  kube::StreamEnd end{200, "", ""};     // how the log ended; status 0 also for an abandoned log
  std::set<std::string> said{};         // messages of the node in place of lines
  std::size_t bytes = 0;                // the size of its lines, including their times
  std::optional<Time> first{}, last{};  // the times of its lines
};

// For a log that is wanted as a whole, the reader first requests 32 KiB and then the rest, so that the first
// lines of all logs arrive soon. If the connection of a log breaks, the reader retries, and gives up when
// this log has brought no new line for 10 s. The reader holds at most 16 MB: it closes the stream of a log
// that is ahead of the others, and continues when the next line of this log is due. When no line has arrived
// for 2 s, the other logs do not wait for silent logs any more. A log that is silent for `longest_silence` is
// opened again. Does not throw: `logs` holds the failures.
void read_logs(kube::Client& client, const std::string& name_space, std::vector<LogRead>& logs,
               const LogTaker& taker, std::chrono::milliseconds longest_silence = std::chrono::seconds(30));

}  // namespace mlk
