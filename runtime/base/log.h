// Messages for people: lines on stderr.
#pragma once

#include <string>
#include <string_view>

namespace mlk::rt {

// Puts the name of the process before each line. A line is one write, so several threads and processes may
// write to the same descriptor.
class Log {
 public:
  // who: for example "mlk-runtime worker/0". fd is borrowed.
  explicit Log(std::string who, int fd = 2) : who_(std::move(who)), fd_(fd) {}

  // Prints "<who>: <message>\n". Never throws; if the stream is closed, the line is lost.
  void line(std::string_view message) const;

 private:
  std::string who_;
  int fd_;
};

}  // namespace mlk::rt
