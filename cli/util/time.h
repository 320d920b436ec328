// Times in the notation of Kubernetes, and durations in the notation of people.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mlk {

using Time = std::chrono::sys_time<std::chrono::nanoseconds>;

// RFC 3339: "2026-11-21T07:40:25Z", with up to nine digits of a fraction; nodes give the times of logs with
// the offset of their own zone: "+01:00". nullopt if the text is not a time. Times before 1678 or after 2261,
// which a Time cannot hold, become the nearest that it can.
std::optional<Time> parse_time(std::string_view text);
// `time` plus so many seconds, which may be negative; out of range as above.
Time later(Time time, std::int64_t seconds);
std::string format_time(Time time);        // whole seconds
std::string format_time_micro(Time time);  // six digits, like metav1.MicroTime
// A time that was recorded. One of the future was told by a clock that has been set back since: nobody knows
// how long ago it is, so `now` takes its place, and what counts from it lasts as long again, but not longer.
std::string past_time(const std::string& recorded, Time now);

// "90s", "15m", "1h30m", "2d"; a bare number is seconds. nullopt if the text is not a duration, is negative,
// or is over ten years.
std::optional<std::chrono::seconds> parse_duration(std::string_view text);

// At most the two largest units, as kubectl shows ages: "45s", "3m20s", "2h5m", "3d4h".
std::string format_duration(std::chrono::seconds duration);

}  // namespace mlk
