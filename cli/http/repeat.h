// Which requests are sent again, and when.
#pragma once

#include <chrono>
#include <optional>

#include "cli/http/failure.h"

namespace mlk::http {

// How an attempt has ended.
struct Attempt {
  Failure::Kind failure = Failure::Kind::none;
  int status = 0;                                     // of the answer, when there was no failure
  std::optional<std::chrono::seconds> retry_after{};  // ... and what it says
  bool twice = false;                      // the server may carry the request out twice, without a difference
  bool is_stream = false;                  // whoever reads a stream opens it again, from where it was
  int attempts = 1;                        // up to now
  std::chrono::milliseconds trying_for{};  // since the first attempt began
};

// How long requests are sent again that the server has not got, or may have got without an answer: as long as
// an API server needs to start again.
constexpr std::chrono::milliseconds longest_trying{10'000};

// The time until the next attempt; nullopt: there is none. Pure.
[[nodiscard]] std::optional<std::chrono::milliseconds> repeat_after(
    const Attempt& attempt, std::chrono::milliseconds longest = longest_trying);

}  // namespace mlk::http
