// The bearer token of a connection. Other programs may renew a token file, so mlk reads the file again.
#pragma once

#include <chrono>
#include <string>

namespace mlk::kube {

// Not thread-safe. If the file is unreadable or has no usable token, the last token stays in use.
class Token {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Token(std::string initial, std::string file);

  // The token to send now. Reads the file again a minute after the last read, or 10 s after a failed read.
  const std::string& current(Time now);
  // Call it when the server has answered 401 to the token `refused`. Returns true if the token has changed.
  bool renew(const std::string& refused, Time now);

 private:
  void read(Time now);

  std::string token_, file_;
  Time next_read_{};
};

}  // namespace mlk::kube
