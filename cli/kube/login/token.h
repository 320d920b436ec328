// The bearer token of a connection, re-read where it lies in a file that others renew.
#pragma once

#include <chrono>
#include <string>

namespace mlk::kube {

// Not safe for several threads. A file that cannot be read, or is empty, leaves the last token in use.
class Token {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Token(std::string initial, std::string file);

  // The token to send now; looks at the file when a minute has passed since the last time.
  const std::string& current(Time now);
  // After a 401 for `refused`: true when there is another token now than that one.
  bool renew(const std::string& refused, Time now);

 private:
  void read(Time now);

  std::string token_, file_;
  Time next_read_{};
};

}  // namespace mlk::kube
