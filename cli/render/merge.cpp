#include "cli/render/merge.h"

#include <algorithm>
#include <string_view>

#include <nlohmann/json.hpp>

namespace mlk {

using nlohmann::json;

namespace {

enum class ListRule { merge, replace, append };

struct NamedList {
  std::string_view key;
  std::string_view name;  // the field that identifies an entry
  ListRule rule;
};

constexpr NamedList lists[] = {
    {"containers", "name", ListRule::merge}, {"initContainers", "name", ListRule::merge},
    {"ports", "name", ListRule::merge},      {"env", "name", ListRule::replace},
    {"volumes", "name", ListRule::replace},  {"volumeMounts", "mountPath", ListRule::replace},
    {"tolerations", "", ListRule::append},   {"imagePullSecrets", "", ListRule::append}};

void merge_list(json& base, const json& overlay, const NamedList& list) {
  for (const json& entry : overlay) {
    const auto same = [&](const json& other) {
      return list.rule != ListRule::append && entry.is_object() && other.is_object() &&
             entry.contains(list.name) && other.contains(list.name) && other[list.name] == entry[list.name];
    };
    const auto found = std::find_if(base.begin(), base.end(), same);
    if (found == base.end()) {
      base.push_back(entry);
    } else {
      *found = list.rule == ListRule::merge ? merge(std::move(*found), entry) : entry;
    }
  }
}

}  // namespace

json merge(json base, const json& overlay) {
  if (!base.is_object() || !overlay.is_object()) return overlay;
  for (const auto& [key, value] : overlay.items()) {
    const auto* list = std::ranges::find_if(lists, [&k = key](const NamedList& l) { return l.key == k; });
    if (value.is_null()) {
      base.erase(key);
    } else if (!base.contains(key)) {
      base[key] = value;
    } else if (list != std::end(lists) && base[key].is_array() && value.is_array()) {
      merge_list(base[key], value, *list);
    } else {
      base[key] = merge(std::move(base[key]), value);
    }
  }
  return base;
}

}  // namespace mlk
