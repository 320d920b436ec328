#include "tests/sim/scenario_text.h"

#include <cmath>

namespace mlk::sim {

double to_seconds(Duration time) { return std::chrono::duration<double>(time).count(); }
Duration to_duration(double seconds) { return Duration(std::llround(seconds * 1e9)); }

double read_number(std::istream& words) {
  double value = 0;
  if (!(words >> value) || value < 0) throw std::invalid_argument("number");
  return value;
}

Duration read_seconds(std::istream& words) { return to_duration(read_number(words)); }
Duration read_milliseconds(std::istream& words) { return to_duration(read_number(words) / 1000); }

LineReader switch_into(bool& target) {
  return [&target](std::istream& words) { target = read_number(words) != 0; };
}
LineReader seconds_into(std::chrono::seconds& target) {
  return [&target](std::istream& words) { target = std::chrono::seconds(read_count<std::uint32_t>(words)); };
}
LineReader milliseconds_into(Duration& target) {
  return [&target](std::istream& words) { target = read_milliseconds(words); };
}

LineReader word_into(std::set<std::string>& target) {
  return [&target](std::istream& words) {
    std::string word;
    if (!(words >> word)) throw std::invalid_argument("word");
    target.insert(word);
  };
}

void read_lines(const std::string& text, const std::map<std::string, LineReader>& readers) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    const auto wrong = std::runtime_error("line " + std::to_string(number) + ": " + line);
    const auto reader = readers.find(word);
    if (reader == readers.end()) throw wrong;
    try {
      reader->second(words);
    } catch (const std::logic_error&) {
      throw wrong;
    }
    if (words >> word) throw wrong;
  }
}

}  // namespace mlk::sim
