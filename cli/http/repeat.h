// Decides which requests are sent again, and when.
#pragma once

#include <chrono>
#include <optional>

#include "cli/http/failure.h"

namespace mlk::http {

// The result of the newest attempt, and what repeat_after() needs to know about its request.
struct Attempt {
  Failure::Kind failure = Failure::Kind::none;
  int status = 0;                                     // of the answer, if there was no failure
  std::optional<std::chrono::seconds> retry_after{};  // of the answer
  bool twice = false;                      // the request is idempotent: the server may execute it twice
  bool is_stream = false;                  // a failed stream is not sent again: its reader opens a new one
  int attempts = 1;                        // up to now
  std::chrono::milliseconds trying_for{};  // since the first attempt began
};

// How long mlk retries requests that the server has not received, or has not answered. An API server can
// restart in this time.
constexpr std::chrono::milliseconds longest_trying{10'000};

// The time until the next attempt; nullopt: the request is not sent again. Pure.
[[nodiscard]] std::optional<std::chrono::milliseconds> repeat_after(
    const Attempt& attempt, std::chrono::milliseconds longest = longest_trying);

}  // namespace mlk::http
