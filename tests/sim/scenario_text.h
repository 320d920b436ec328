// The text of a scenario. The first word of a line names the thing that the line sets; `#` begins a comment.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include "tests/sim/clock.h"

namespace mlk::sim {

double to_seconds(Duration time);
Duration to_duration(double seconds);

// The next word as a number, or as a time in seconds or milliseconds. Throws std::invalid_argument if the
// word is missing, not a number, or negative.
double read_number(std::istream& words);
Duration read_seconds(std::istream& words);
Duration read_milliseconds(std::istream& words);
template <std::unsigned_integral T>
T read_count(std::istream& words) {
  T value = 0;
  if ((words >> std::ws).peek() == '-' || !(words >> value)) throw std::invalid_argument("count");
  return value;
}

// Reads the rest of a line behind its first word.
using LineReader = std::function<void(std::istream& words)>;

// Readers of lines that set one value.
template <std::unsigned_integral T>
LineReader count_into(T& target) {
  return [&target](std::istream& words) { target = read_count<T>(words); };
}
LineReader switch_into(bool& target);  // 0 or 1
LineReader seconds_into(std::chrono::seconds& target);
LineReader milliseconds_into(Duration& target);
// Adds the next word.
LineReader word_into(std::set<std::string>& target);

// Calls the reader that belongs to each line's first word. Throws std::runtime_error that names the line if
// there is no such reader, if the reader throws std::logic_error, or if the reader leaves words unread.
void read_lines(const std::string& text, const std::map<std::string, LineReader>& readers);

}  // namespace mlk::sim
