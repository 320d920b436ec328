#include "cli/http/silence.h"

namespace mlk::http {

using std::chrono::milliseconds;

namespace {

milliseconds whole(SteadyTime::duration time) { return std::chrono::duration_cast<milliseconds>(time); }

}  // namespace

SilenceStep next_step(const Quiet& connection, const FreshCheck& check, const SilenceTimes& times) {
  const milliseconds half = (times.leave - times.suspect) / 2;
  if (connection.silent < times.suspect) return SilenceStep::wait;
  // A request that waits for its answer already serves as a check, so mlk sends no other check.
  if (connection.takes_more && !connection.owes && !connection.asked) return SilenceStep::ask;
  // An answer over another connection counts only if it came after this connection had become suspect.
  const bool others_are_answered = check.answered && connection.silent - *check.answered >= times.suspect;
  if (others_are_answered) {
    const milliseconds patience = connection.owes ? times.suspect + half : times.leave;
    return connection.silent >= patience ? SilenceStep::leave : SilenceStep::wait;
  }
  const bool had_time = !connection.asked || *connection.asked >= half;
  const bool just_failed = check.failed && *check.failed < half;
  return had_time && !just_failed && !check.under_way ? SilenceStep::check : SilenceStep::wait;
}

void Silence::begin(SteadyTime now) {
  if (requests_++ == 0) since_ = now;
}

void Silence::end(SteadyTime now) {
  if (--requests_ == 0) before_ += now - since_;
}

void Silence::heard(SteadyTime now) {
  since_ = now;
  before_ = {};
  asked_.reset();
}

Quiet Silence::at(SteadyTime now) const {
  Quiet quiet{.silent = whole(before_ + (requests_ > 0 ? now - since_ : SteadyTime::duration{}))};
  if (asked_) quiet.asked = whole(now - *asked_);
  return quiet;
}

}  // namespace mlk::http
