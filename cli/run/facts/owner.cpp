#include "cli/run/facts/owner.h"

#include <charconv>

#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"

namespace mlk {

using json = nlohmann::json;

bool is_owner(const json& config_map) {
  const std::string name = kube::name_of(config_map);
  return !name.empty() && kube::label_of(config_map, labels::run) == name;
}

bool is_sweep(const json& owner) {
  return is_owner(owner) && kube::label_of(owner, labels::sweep) == kube::name_of(owner);
}

std::string label_of_owner(const json& owner) { return is_sweep(owner) ? labels::sweep : labels::run; }

bool is_trial(const json& owner) {
  return is_owner(owner) && !kube::label_of(owner, labels::sweep).empty() && !is_sweep(owner);
}

bool is_driver(const json& object) {
  return kube::label_of(object, labels::role) == labels::driver &&
         kube::label_of(object, labels::run) == kube::label_of(object, labels::sweep);
}

std::string commit_of(const std::string& source) {
  const json known = json_or_null(source);
  const std::string commit = text_of(known, {"commit"});
  return commit.empty() || at_path(known, {"clean"}) == true ? commit : commit + "-dirty";
}

long steps_of(const json& owner) {
  const std::string text = kube::annotation_of(owner, annotations::steps);
  long steps = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
  return error == std::errc() && end == text.data() + text.size() && steps > 0 ? steps : 0;
}

std::vector<std::string> tags_of(const json& owner) {
  std::vector<std::string> tags;
  const json words = json_or_null(kube::annotation_of(owner, annotations::tags));
  if (!words.is_array()) return tags;
  for (const json& word : words) {
    if (word.is_string()) tags.push_back(word.get<std::string>());
  }
  return tags;
}

std::map<std::string, int> roles_of(const json& owner) {
  const json named = json_or_null(kube::annotation_of(owner, annotations::roles));
  std::map<std::string, int> roles;
  if (!named.is_object()) return roles;
  for (const auto& [role, unused] : named.items()) roles[role] = number_of(named, {role.c_str()}, 0);
  return roles;
}

}  // namespace mlk
