// Decides when an open connection is dead because a device on the way no longer forwards data. A merely quiet
// connection looks the same. So mlk abandons a connection only after a second connection has got an answer.
// If the silent connection can carry one more request, mlk first sends a check over it.
#pragma once

#include <chrono>
#include <optional>

#include "cli/http/credential.h"

namespace mlk::http {

// Other values are for tests.
struct SilenceTimes {
  std::chrono::milliseconds suspect{20'000};  // after this silence the connection is checked
  // After this silence, the connection is abandoned if a new connection gets an answer. If a request waits
  // for its answer, the connection is abandoned earlier, halfway between `suspect` and `leave`.
  std::chrono::milliseconds leave{30'000};
};

// The state of a connection on which data is expected.
struct Quiet {
  std::chrono::milliseconds silent{0};
  bool takes_more = false;                           // HTTP/2: the connection can carry one more request
  bool owes = false;                                 // a request waits for its answer; streams do not count
  std::optional<std::chrono::milliseconds> asked{};  // time since a check was sent in this silence
};

// The state of the last check over a separate connection. The times are durations until now.
struct FreshCheck {
  bool under_way = false;
  std::optional<std::chrono::milliseconds> answered{}, failed{};
};

enum class SilenceStep {
  wait,
  ask,    // send a small request over an open connection
  check,  // send a small request over a new connection
  leave,  // the connection is dead: the server answers over other connections only
};

// Pure.
[[nodiscard]] SilenceStep next_step(const Quiet& connection, const FreshCheck& check,
                                    const SilenceTimes& times);

// Measures how long a connection has been silent. Only time with requests in progress counts. If a request is
// abandoned without an answer, the silence up to then still counts. Pure.
class Silence {
 public:
  void begin(SteadyTime now);  // a request was sent
  void end(SteadyTime now);    // a request has ended, or was abandoned
  void heard(SteadyTime now);  // data has come
  void asked(SteadyTime now) { asked_ = now; }
  bool expects() const { return requests_ > 0; }
  // The state, except takes_more and owes. Only the owner of the requests knows these two values.
  [[nodiscard]] Quiet at(SteadyTime now) const;

 private:
  int requests_ = 0;
  SteadyTime since_{};             // beginning of the silence of the requests in progress
  SteadyTime::duration before_{};  // silence of earlier requests
  std::optional<SteadyTime> asked_;
};

}  // namespace mlk::http
