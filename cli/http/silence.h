// When a connection counts as dead that has ended without a sign: something in between keeps it open and
// passes nothing on. A quiet connection looks the same, so it is asked, and another one is tried, before it
// is left.
#pragma once

#include <chrono>
#include <optional>

#include "cli/http/credential.h"

namespace mlk::http {

// Other values are for tests.
struct SilenceTimes {
  std::chrono::milliseconds suspect{20'000};  // of silence: the connection is checked
  std::chrono::milliseconds leave{30'000};    // of silence: it is left, if another one was answered meanwhile
};

// What is known of a connection of which something is expected.
struct Quiet {
  std::chrono::milliseconds silent{0};
  bool takes_more = false;  // HTTP/2: a request finds place beside those in progress
  bool owes = false;        // a request waits for its answer. A stream may have nothing to say
  std::optional<std::chrono::milliseconds> asked{};  // so long ago a request was sent beside, in this silence
};

// What is known of the last check over a connection of its own; times: how long ago.
struct FreshCheck {
  bool under_way = false;
  std::optional<std::chrono::milliseconds> answered{}, failed{};
};

enum class SilenceStep {
  wait,
  ask,    // send a small request beside those in progress
  check,  // send one over a new connection
  leave,  // the connection is dead: the server answers, but not here
};

// Pure.
[[nodiscard]] SilenceStep next_step(const Quiet& connection, const FreshCheck& check,
                                    const SilenceTimes& times);

// How long a connection has been silent. Only time in which something is expected of it counts, and a request
// that was given up in silence does not make that silence shorter. Pure.
class Silence {
 public:
  void begin(SteadyTime now);  // a request was sent
  void end(SteadyTime now);    // a request has ended, or was given up
  void heard(SteadyTime now);  // something has come
  void asked(SteadyTime now) { asked_ = now; }
  bool expects() const { return requests_ > 0; }
  // Without the facts that only the owner of the requests knows: takes_more, owes.
  [[nodiscard]] Quiet at(SteadyTime now) const;

 private:
  int requests_ = 0;
  SteadyTime since_{};                       // while requests are in progress
  SteadyTime::duration before_{};            // silence of earlier requests
  std::optional<SteadyTime> asked_;
};

}  // namespace mlk::http
