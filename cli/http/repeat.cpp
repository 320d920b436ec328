#include "cli/http/repeat.h"

#include <algorithm>

namespace mlk::http {
namespace {

using std::chrono::milliseconds;
using Kind = Failure::Kind;

constexpr int most_attempts = 10, most_on_dead_connections = 3;
constexpr milliseconds longest_wait_asked_for{30'000}, first_wait{250}, longest_wait{2'000};

// Whether the server cannot have received the request.
bool is_unsent(Kind kind) { return kind == Kind::refused || kind == Kind::handshake; }

}  // namespace

std::optional<milliseconds> repeat_after(const Attempt& attempt, milliseconds longest) {
  if (attempt.attempts >= most_attempts) return std::nullopt;
  if (attempt.failure == Kind::none) {
    if (!attempt.retry_after || (attempt.status != 429 && attempt.status < 500)) return std::nullopt;
    return std::min<milliseconds>(*attempt.retry_after, longest_wait_asked_for);
  }
  if (attempt.is_stream) return std::nullopt;
  if (attempt.failure == Kind::silent && attempt.twice && attempt.attempts < most_on_dead_connections)
    return milliseconds(0);
  if (!is_unsent(attempt.failure) && (attempt.failure != Kind::broken || !attempt.twice)) return std::nullopt;
  const milliseconds wait = std::min(first_wait * (1 << (attempt.attempts - 1)), longest_wait);
  if (attempt.trying_for + wait > longest) return std::nullopt;
  return wait;
}

}  // namespace mlk::http
