// Reads the ends of many logs side by side, until a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "cli/kube/client.h"
#include "cli/kube/logs.h"

namespace mlk::kube {

struct LogTail {
  std::string pod;
  std::string container{};  // as of LogOptions
  int lines = 0;            // at most
  std::size_t bytes = 0;    // of more the server cuts off the end, where the newest lines are
};

struct TailAnswer {
  int status = 0;                // of HTTP; 0: the server could not be reached
  std::vector<LogLine> lines{};  // none unless the status is 200
  bool cut_off = false;          // there were as many bytes as were asked for
  bool whole = false;            // these are all lines of the log
};

// Not thread-safe. Errors of the server are answers and never thrown.
class LogTails {
 public:
  using Take = std::function<void(const TailAnswer&)>;  // may add further logs

  LogTails(Client& client, const std::string& name_space) : client_(client), name_space_(name_space) {}

  // They are asked for in the order in which they were added.
  void add(LogTail tail, Take take) { due_.push_back({std::move(tail), std::move(take)}); }

  // Asks for at most 128 at a time and hands on what comes, as it comes. Returns when all have answered, or
  // at the deadline: then what is left is forgotten.
  void read(std::chrono::steady_clock::time_point deadline);

 private:
  struct Asked {
    LogTail tail;
    Take take;
    std::future<Answer> answer{};
  };

  void start_due(std::chrono::milliseconds left);
  void take_answers();

  Client& client_;
  const std::string& name_space_;
  std::deque<Asked> due_, under_way_;
};

}  // namespace mlk::kube
