#include "cli/run/facts/last_words.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "cli/util/json.h"
#include "cli/util/program_text.h"
#include "cli/util/text.h"

namespace mlk {

using json = nlohmann::json;

bool repeats_a_peer(std::string_view message) {
  const std::string_view said = trim(message);
  const std::size_t slash = said.find('/'), words = said.find(" ended with exit code ");
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return slash != std::string_view::npos && words != std::string_view::npos && slash < words &&
         is_label(said.substr(0, slash)) && digits(said.substr(slash + 1, words - slash - 1)) &&
         digits(said.substr(words + std::string_view(" ended with exit code ").size()));
}

bool blames_a_peer(const std::string& message) {
  if (repeats_a_peer(message)) return true;
  const std::string text = lower_case(message);
  // From top to bottom: messages of sockets, gloo, torch's store, NCCL, gRPC, JAX and TensorFlow.
  constexpr std::array words = {"reset by peer",
                                "broken pipe",
                                "connection refused",
                                "closed by peer",
                                "connection was likely closed",
                                "remote process exiting",
                                "socket closed",
                                "failed to connect to all addresses",
                                "another task"};
  return std::ranges::any_of(words, [&](const char* each) { return text.find(each) != std::string::npos; });
}

std::string line_of(const std::string& text, std::size_t limit) {
  std::string line = program_text(trim(text));
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::replace(line.begin(), line.end(), '\t', ' ');
  if (line.size() > limit) line = std::string(cut(line, limit)) + "...";
  return line;
}

std::string last_line(const std::string& text) {
  const std::string_view trimmed = trim(text);
  return std::string(trim(trimmed.substr(trimmed.rfind('\n') + 1)));
}

json parse_result(const std::string& termination_message) {
  const std::string_view text = trim(termination_message);
  if (!text.starts_with('{')) return nullptr;
  json value = json_or_null(text);
  return value.is_object() && value.contains("schema") ? value : json(nullptr);
}

}  // namespace mlk
