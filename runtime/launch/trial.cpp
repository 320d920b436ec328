// Reads one line of a file of points. The file has a line for each trial of the sweep, and each trial reads
// its own line.
#include "runtime/launch/trial.h"

#include <cctype>
#include <cstdint>
#include <fstream>
#include <stdexcept>

#include "runtime/base/exit_code.h"
#include "runtime/base/json.h"

namespace mlk::rt {
namespace {

using nlohmann::json;

constexpr int highest_trial = 999'999;
constexpr std::size_t most_value_bytes = 1024;

[[noreturn]] void refuse_point(const std::string& name, int line, const std::string& what) {
  throw Failure(ExitCode::bad_configuration, name + ":" + std::to_string(line) + ": " + what);
}

// The text of line `wanted`, counted from 1, without its newline.
std::string read_line(std::istream& file, const std::string& name, int wanted) {
  std::string line;
  std::size_t bytes = 0;
  int at = 1;
  for (int c = file.get(); c != std::istream::traits_type::eof(); c = file.get()) {
    if (++bytes > most_points_bytes) refuse_point(name, wanted, "lies beyond the first 2 MiB of the file");
    if (c == '\n') {
      if (at == wanted) return line;
      ++at;
    } else if (at == wanted) {
      if (line.size() == most_point_bytes) refuse_point(name, wanted, "has more than 64 KiB");
      line += static_cast<char>(c);
    }
  }
  if (file.bad()) refuse_point(name, wanted, "cannot be read");
  if (line.empty()) refuse_point(name, wanted, "there is no such line");
  return line;  // the last line, without a newline
}

// Formats a value. A text that begins with a letter and has no blank, "=" or escape sequence is shown without
// quotes.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true);
  const bool word = value.is_string() && std::isalpha(static_cast<unsigned char>(text[1])) != 0 &&
                    text.find_first_of(" \\=") == text.npos;
  return word ? text.substr(1, text.size() - 2) : text;
}

std::string values_of(const json& parameters) {
  std::string text;
  for (const auto& [path, value] : parameters.items()) {
    text += (text.empty() ? "" : " ") + shown(json(path)) + "=" + shown(value);
    if (text.size() > most_value_bytes) return text.substr(0, most_value_bytes - 3) + "...";
  }
  return text.empty() ? "no parameters" : text;
}

}  // namespace

Trial read_trial(std::istream& file, const std::string& name, int index) {
  const int line = index + 1;
  json point;
  try {
    point = parse_json(read_line(file, name, line), "the point");
  } catch (const Failure&) {
    throw;
  } catch (const std::runtime_error& error) {
    refuse_point(name, line, error.what());
  }
  const auto part = [&](const char* key) -> const json& {
    static const json nothing;
    const auto found = point.is_object() ? point.find(key) : point.end();
    return found == point.end() ? nothing : *found;
  };
  if (!point.is_object()) refuse_point(name, line, "must be an object");
  const json& number = part("trial");
  if (!number.is_number_unsigned() || number.get<std::uint64_t>() > highest_trial)
    refuse_point(name, line, "trial must be a whole number from 0 to " + std::to_string(highest_trial));
  if (!part("hash").is_string()) refuse_point(name, line, "hash must be a string");
  for (const char* key : {"parameters", "config"})
    if (!part(key).is_object()) refuse_point(name, line, std::string(key) + " must be an object");
  return {number.get<int>(), values_of(part("parameters")), part("config")};
}

Trial load_trial(const std::string& path, int index) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) throw Failure(ExitCode::bad_configuration, path + ": cannot be read");
  return read_trial(file, path, index);
}

void enter_folders(LaunchEnv& env, const Trial& trial) {
  for (std::string* folder : {&env.checkpoints, &env.tensorboard})
    if (!folder->empty()) *folder += "/" + std::to_string(trial.number);
}

}  // namespace mlk::rt
