#include "cli/kube/dropped_fields.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace mlk::kube {
namespace {

using json = nlohmann::json;

bool is_empty_value(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return true;
    case json::value_t::boolean:
      return !value.get<bool>();
    case json::value_t::string:
      return value.get_ref<const std::string&>().empty();
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
    case json::value_t::number_float:
      return value == 0;
    default:
      return std::all_of(value.begin(), value.end(), is_empty_value);
  }
}

std::string below(const std::string& path, const std::string& key) {
  const bool plain = key.find_first_of("./\"[] ") == std::string::npos;
  if (!plain) return path + "[\"" + key + "\"]";
  return path.empty() ? key : path + "." + key;
}

// The field by which Kubernetes identifies this item in its list; nullptr if only the index identifies it.
const char* identity_of(const json& item) {
  // mountPath comes before name, because two mounts of one volume have the same name.
  for (const char* key : {"mountPath", "name", "key", "topologyKey"}) {
    const auto found = item.find(key);
    if (found != item.end() && found->is_string()) return key;
  }
  return nullptr;
}

void compare(const json& sent, const json& answered, const std::string& path,
             std::vector<std::string>& dropped);

void compare_maps(const json& sent, const json& answered, const std::string& path,
                  std::vector<std::string>& dropped) {
  for (const auto& [key, value] : sent.items()) {
    if (is_empty_value(value)) continue;
    const auto found = answered.find(key);
    if (found == answered.end()) {
      dropped.push_back(below(path, key));
    } else {
      compare(value, *found, below(path, key), dropped);
    }
  }
}

void compare_lists(const json& sent, const json& answered, const std::string& path,
                   std::vector<std::string>& dropped) {
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const json& item = sent[i];
    const char* identity = item.is_object() ? identity_of(item) : nullptr;
    const std::string name = identity == nullptr ? std::to_string(i) : item[identity].get<std::string>();
    const std::string here = path + "[" + name + "]";
    const auto same = [&](const json& other) {
      return identity != nullptr && other.is_object() && other.contains(identity) &&
             other[identity] == item[identity];
    };
    // An item without an identity is found by its index. An item with an identity is found by its identity;
    // the item at the same index is tried first, since several tolerations or selectors may have the same
    // key.
    const auto found = i < answered.size() && (identity == nullptr || same(answered[i]))
                           ? answered.begin() + static_cast<std::ptrdiff_t>(i)
                           : std::find_if(answered.begin(), answered.end(), same);
    if (found == answered.end()) {
      dropped.push_back(here);
    } else {
      compare(item, *found, here, dropped);
    }
  }
}

void compare(const json& sent, const json& answered, const std::string& path,
             std::vector<std::string>& dropped) {
  if (sent.is_object() && answered.is_object()) {
    compare_maps(sent, answered, path, dropped);
  } else if (sent.is_array() && answered.is_array()) {
    compare_lists(sent, answered, path, dropped);
  } else if (sent.is_structured() || answered.is_structured()) {
    dropped.push_back(path);  // the answer has a value of another type, so the sent value is missing
  }
}

}  // namespace

std::vector<std::string> dropped_fields(const json& sent, const json& answered) {
  std::vector<std::string> dropped;
  if (!sent.is_object() || !sent.contains("stringData") || !sent["stringData"].is_object()) {
    compare(sent, answered, "", dropped);
    return dropped;
  }
  json stored = sent;
  stored.erase("stringData");
  compare(stored, answered, "", dropped);
  const json data = answered.is_object() ? answered.value("data", json::object()) : json::object();
  for (const auto& [key, value] : sent["stringData"].items()) {
    if (!is_empty_value(value) && !data.contains(key)) dropped.push_back(below("stringData", key));
  }
  return dropped;
}

}  // namespace mlk::kube
