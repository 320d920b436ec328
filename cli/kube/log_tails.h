// Reads the ends of many logs side by side, until a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "cli/kube/client.h"
#include "cli/kube/logs.h"

namespace mlk::kube {

struct LogTail {
  std::string pod;
  std::string container{};  // see LogOptions::container
  int lines = 0;            // the maximum number of lines
  std::size_t bytes = 0;  // the limit; the server cuts a longer text at its end, so the newest lines are lost
};

struct TailAnswer {
  int status = 0;                // HTTP status; 0: no answer came
  std::vector<LogLine> lines{};  // empty unless the status is 200; the last line is left out if cut_off
  bool cut_off = false;          // the text reached the requested number of bytes
  bool whole = false;            // `lines` has all lines of the log
};

// Not thread-safe. A failed request becomes an answer; no function throws because of it.
class LogTails {
 public:
  using Take = std::function<void(const TailAnswer&)>;  // may add further logs

  LogTails(Client& client, std::string name_space) : client_(client), name_space_(std::move(name_space)) {}

  // read() requests the logs in the order in which they were added.
  void add(LogTail tail, Take take) { due_.push_back({std::move(tail), std::move(take)}); }

  // Requests at most 128 logs at a time and calls `take` with each answer as it arrives. Returns when all
  // requests have an answer. At the deadline, it drops the remaining logs and returns.
  void read(std::chrono::steady_clock::time_point deadline);

 private:
  struct Asked {
    LogTail tail;
    Take take;
    std::future<Answer> answer{};
  };

  void start_due(std::chrono::milliseconds left);
  void collect_answers();

  Client& client_;
  const std::string name_space_;
  std::deque<Asked> due_, under_way_;
};

}  // namespace mlk::kube
