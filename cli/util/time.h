// Times as Kubernetes writes them, and durations as people do.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mlk {

using Time = std::chrono::sys_time<std::chrono::nanoseconds>;

// RFC 3339 in UTC: "2026-11-21T07:40:25Z", with up to nine digits of a fraction. nullopt when it is not one.
// What a Time cannot hold, before 1678 or after 2261, is the nearest that it can.
std::optional<Time> parse_time(std::string_view text);
// So many seconds later, or earlier; the same holds.
Time later(Time time, std::int64_t seconds);
std::string format_time(Time time);        // whole seconds
std::string format_time_micro(Time time);  // six digits, as metav1.MicroTime

// "90s", "15m", "1h30m", "2d"; a bare number is seconds. nullopt when it is none, negative, or over ten
// years.
std::optional<std::chrono::seconds> parse_duration(std::string_view text);

// The two largest units at most, as kubectl shows ages: "45s", "3m20s", "2h5m", "3d4h".
std::string format_duration(std::chrono::seconds duration);

}  // namespace mlk
