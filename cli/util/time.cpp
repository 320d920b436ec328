#include "cli/util/time.h"

#include <algorithm>
#include <charconv>
#include <ctime>

#include <fmt/format.h>

namespace mlk {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

std::optional<int> digits(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return std::nullopt;
  int value = 0;
  for (std::size_t i = at; i < at + count; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

// Parses the offset of a time zone: "Z" or "+05:30".
std::optional<int> offset_seconds(std::string_view text) {
  if (text == "Z") return 0;
  const auto hours = digits(text, 1, 2), minutes = digits(text, 4, 2);
  if (text.size() != 6 || !hours || !minutes || *hours > 23 || *minutes > 59 || text[3] != ':')
    return std::nullopt;
  const int offset = *hours * 3600 + *minutes * 60;
  if (text[0] == '+') return offset;
  return text[0] == '-' ? std::optional(-offset) : std::nullopt;
}

}  // namespace

std::optional<Time> parse_time(std::string_view text) {
  const auto year = digits(text, 0, 4), month = digits(text, 5, 2), day = digits(text, 8, 2);
  const auto hour = digits(text, 11, 2), minute = digits(text, 14, 2), second = digits(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  if (text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':')
    return std::nullopt;
  if (*month < 1 || *month > 12 || *day < 1 || *day > 31 || *hour > 23 || *minute > 59 || *second > 60) {
    return std::nullopt;
  }
  std::size_t at = 19;
  long fraction = 0;
  if (at < text.size() && text[at] == '.') {
    long scale = 100'000'000;
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      fraction += (text[at] - '0') * scale;
      scale /= 10;
    }
  }
  const std::optional<int> offset = offset_seconds(text.substr(at));
  if (!offset) return std::nullopt;
  const seconds midnight = std::chrono::sys_days(std::chrono::year(*year) / *month / *day).time_since_epoch();
  return later(Time(nanoseconds(fraction)),
               midnight.count() + *hour * 3600 + *minute * 60 + *second - *offset);
}

Time later(Time time, std::int64_t by) {
  constexpr std::int64_t most = seconds::max().count() / 1'000'000'000 - 1;
  const auto whole = std::chrono::floor<seconds>(time);
  const std::int64_t sum = whole.time_since_epoch().count() + std::clamp(by, -2 * most, 2 * most);
  return Time(seconds(std::clamp(sum, -most, most))) + (time - whole);
}

std::string format_time(Time time) {
  const std::time_t t = std::chrono::floor<seconds>(time).time_since_epoch().count();
  std::tm parts{};
  ::gmtime_r(&t, &parts);
  char text[80];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string format_time_micro(Time time) {
  const nanoseconds fraction = time - std::chrono::floor<seconds>(time);
  std::string text = format_time(time);
  return text.insert(text.size() - 1, fmt::format(".{:06}", fraction.count() / 1000));
}

std::optional<seconds> parse_duration(std::string_view text) {
  constexpr long long limit = 10LL * 365 * 86400;
  constexpr std::string_view letters = "smhd";
  constexpr long long seconds_of[] = {1, 60, 3600, 86400};  // in the order of the letters
  if (text.empty()) return std::nullopt;
  long long total = 0;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at != end) {
    long long value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || next == at || value < 0 || value > limit) return std::nullopt;
    long long unit = 1;
    at = next;
    if (at != end) {
      const std::size_t letter = letters.find(*at++);
      if (letter == letters.npos) return std::nullopt;
      unit = seconds_of[letter];
    } else if (total != 0) {
      return std::nullopt;  // "1h30": the second unit is missing
    }
    total += value * unit;
    if (total > limit) return std::nullopt;
  }
  return seconds(total);
}

std::string past_time(const std::string& recorded, Time now) {
  const std::optional<Time> time = parse_time(recorded);
  return time && *time > now ? format_time(now) : recorded;
}

std::string format_duration(seconds duration) {
  const long long total = duration.count() < 0 ? 0 : duration.count();
  const auto two = [](long long a, const char* unit_a, long long b, const char* unit_b) {
    return std::to_string(a) + unit_a + (b == 0 ? "" : std::to_string(b) + unit_b);
  };
  if (total < 60) return std::to_string(total) + "s";
  if (total < 3600) return two(total / 60, "m", total % 60, "s");
  if (total < 86400) return two(total / 3600, "h", total % 3600 / 60, "m");
  return two(total / 86400, "d", total % 86400 / 3600, "h");
}

}  // namespace mlk
