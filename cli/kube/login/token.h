// The bearer token of a connection. If the token is in a file that other programs renew, mlk reads it again.
#pragma once

#include <chrono>
#include <string>

namespace mlk::kube {

// Not safe for several threads. A file that cannot be read, or is empty, leaves the last token in use.
class Token {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Token(std::string initial, std::string file);

  // The token to send now; reads the file again when a minute has passed since the last read.
  const std::string& current(Time now);
  // Call it after a 401 for `refused`. Returns true if the current token is now another token.
  bool renew(const std::string& refused, Time now);

 private:
  void read(Time now);

  std::string token_, file_;
  Time next_read_{};
};

}  // namespace mlk::kube
