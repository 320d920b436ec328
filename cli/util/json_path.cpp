#include "cli/util/json_path.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

namespace mlk {

using nlohmann::json;

const json& at_path(const json& object, JsonPath path) {
  static const json nothing;
  const json* here = &object;
  for (const char* key : path) {
    if (!here->is_object()) return nothing;
    const auto found = here->find(key);
    if (found == here->end()) return nothing;
    here = &*found;
  }
  return *here;
}

const std::string& text_of(const json& object, JsonPath path) {
  static const std::string none;
  const json& value = at_path(object, path);
  return value.is_string() ? value.get_ref<const std::string&>() : none;
}

std::int64_t whole_number(const json& value) {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{largest}) return largest;
  return value.get<std::int64_t>();
}

int number_of(const json& object, JsonPath path, int otherwise) {
  const json& value = at_path(object, path);
  if (!value.is_number_integer()) return otherwise;
  constexpr std::int64_t bound = 1'000'000'000;
  return static_cast<int>(std::clamp(whole_number(value), -bound, bound));
}

std::int64_t count_of(const json& object, JsonPath path, std::int64_t otherwise) {
  const json& value = at_path(object, path);
  return value.is_number_integer() ? whole_number(value) : otherwise;
}

std::optional<Time> time_of(const json& object, JsonPath path) { return parse_time(text_of(object, path)); }

std::vector<std::string> texts_in(const json& list) {
  std::vector<std::string> out;
  if (!list.is_array()) return out;
  for (const json& each : list) {
    if (each.is_string()) out.push_back(each.get<std::string>());
  }
  return out;
}

std::string text_or_json(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace mlk
