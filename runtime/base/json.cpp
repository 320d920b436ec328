// Limits the depth of the JSON that the library reads.
#include "runtime/base/json.h"

#include <stdexcept>

namespace mlk::rt {

using nlohmann::json;

json parse_json(std::string_view text, const std::string& name) {
  if (text.size() > most_json_bytes)
    throw std::runtime_error(name + ": more than " + std::to_string(most_json_bytes >> 20) + " MiB of JSON");
  const auto bounded = [&](int depth, json::parse_event_t event, const json&) {
    const bool begins =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (begins && depth >= most_json_levels)
      throw std::runtime_error(name + ": nested deeper than " + std::to_string(most_json_levels));
    return true;
  };
  try {
    return json::parse(text, bounded);
  } catch (const json::exception& error) {
    throw std::runtime_error(name + ": not JSON: " + error.what());
  }
}

}  // namespace mlk::rt
