// SIGTERM and SIGINT as a state that can be queried and polled, instead of an interruption.
#pragma once

#include <chrono>

namespace mlk::rt {

// Construct the object in main before any thread starts: the constructor blocks both signals, and threads
// inherit this mask. One object per process.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Whether one of the signals has arrived. Once true, it stays true. Costs one system call.
  bool requested() const { return wait(std::chrono::milliseconds(0)); }

  // Sleeps for the given time, or until a signal arrives. Returns requested().
  bool wait(std::chrono::milliseconds time) const;

  // Readable from the first signal on. Use it only with poll and epoll: a read would clear the signal.
  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace mlk::rt
