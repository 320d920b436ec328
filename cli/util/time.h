// Times in the notation of Kubernetes, and durations in the notation of people.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mlk {

using Time = std::chrono::sys_time<std::chrono::nanoseconds>;

// Reads a time of RFC 3339: "2026-11-21T07:40:25Z", with up to nine digits of a fraction. In the logs of some
// nodes, a time has the offset of a time zone, such as "+01:00", in place of "Z". nullopt if the text is not
// a time. Times before 1678 or after 2261 become the nearest time that a Time can hold.
std::optional<Time> parse_time(std::string_view text);
// `time` plus `seconds`, which may be negative. A result out of range becomes the nearest possible time.
Time later(Time time, std::int64_t seconds);
std::string format_time(Time time);        // without fractions of a second
std::string format_time_micro(Time time);  // with six digits of a fraction, like metav1.MicroTime
// Returns `recorded`, or `now` if `recorded` is a time in the future. Such a time comes from a clock that was
// set back later, so the real age is unknown. A caller that waits for a period after the result thus never
// waits longer than this period.
std::string past_time(const std::string& recorded, Time now);

// "90s", "15m", "1h30m", "2d"; a bare number is seconds. nullopt if the text is not a duration, is negative,
// or is over ten years.
std::optional<std::chrono::seconds> parse_duration(std::string_view text);

// Returns at most the two largest units, as kubectl shows ages: "45s", "3m20s", "2h5m", "3d4h".
std::string format_duration(std::chrono::seconds duration);

}  // namespace mlk
