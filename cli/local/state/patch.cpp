#include "cli/local/state/patch.h"

#include <algorithm>
#include <map>
#include <string>

#include "cli/local/state/status.h"
#include "cli/util/error.h"
#include "cli/util/json.h"

namespace mlk::local {
namespace {

constexpr std::size_t depth_limit = 100;      // levels; a client's limit is higher, since a list adds levels
constexpr std::size_t most_copied = 3 << 20;  // bytes that the operations of one patch may copy together
constexpr char directive[] = "$patch";

// The field that identifies an element of a list; empty for a list that is replaced as a whole.
std::string merge_key(const std::string& field, const json& element) {
  static const std::map<std::string, std::string> keys = {
      {"containers", "name"}, {"initContainers", "name"},    {"env", "name"},
      {"volumes", "name"},    {"volumeMounts", "mountPath"}, {"imagePullSecrets", "name"},
      {"conditions", "type"}, {"ownerReferences", "uid"},    {"schedulingGates", "name"},
      {"hostAliases", "ip"}};
  if (field == "ports") return element.contains("containerPort") ? "containerPort" : "port";
  const auto found = keys.find(field);
  return found == keys.end() ? "" : found->second;
}

void merge(json& target, const json& patch);

void merge_list(const std::string& field, json& target, const json& patch) {
  const bool of_objects =
      !patch.empty() && std::all_of(patch.begin(), patch.end(), [](const json& e) { return e.is_object(); });
  const std::string key = of_objects ? merge_key(field, patch.front()) : "";
  if (field == "finalizers" && target.is_array()) {
    for (const json& element : patch) {
      if (std::find(target.begin(), target.end(), element) == target.end()) target.push_back(element);
    }
    return;
  }
  const bool replaces = std::any_of(patch.begin(), patch.end(), [](const json& e) {
    return e.is_object() && e.value(directive, "") == "replace";
  });
  if (key.empty() || !target.is_array() || replaces) {
    target = json::array();
    for (const json& element : patch) {
      if (!element.is_object() || !element.contains(directive)) target.push_back(element);
    }
    return;
  }
  for (const json& element : patch) {
    const auto same = std::find_if(target.begin(), target.end(), [&](const json& existing) {
      return existing.is_object() && element.contains(key) && existing.value(key, json()) == element.at(key);
    });
    if (element.value(directive, "") == "delete") {
      if (same != target.end()) target.erase(same);
    } else if (same != target.end()) {
      merge(*same, element);
    } else {
      target.push_back(element);
    }
  }
}

void delete_from_list(json& target, const std::string& field, const json& values) {
  if (!target.contains(field) || !target[field].is_array()) return;
  for (const json& value : values) {
    auto& list = target[field];
    list.erase(std::remove(list.begin(), list.end(), value), list.end());
  }
}

void merge(json& target, const json& patch) {
  if (patch.value(directive, "") == "replace" || !target.is_object()) target = json::object();
  for (const auto& [field, value] : patch.items()) {
    if (field == directive || field.starts_with("$setElementOrder/") || field == "$retainKeys") continue;
    if (field.starts_with("$deleteFromPrimitiveList/")) {
      delete_from_list(target, field.substr(field.find('/') + 1), value);
    } else if (value.is_null() || (value.is_object() && value.value(directive, "") == "delete")) {
      target.erase(field);
    } else if (value.is_object()) {
      merge(target[field], value);
    } else if (value.is_array()) {
      merge_list(field, target[field], value);
    } else {
      target[field] = value;
    }
  }
}

// Limits how many bytes the operations of a patch may copy, as Kubernetes does, since each operation may
// double the object.
json patched(json object, const json& operations) {
  if (!operations.is_array()) return object.patch(operations);  // the library reports what is wrong
  std::size_t copied = 0;
  for (const json& operation : operations) {
    if (operation.is_object() && operation.value("op", json()) == "copy" &&
        operation.value("from", json()).is_string()) {
      copied += object.at(json::json_pointer(operation["from"].get<std::string>())).dump().size();
      if (copied > most_copied)
        throw StatusError(413, "RequestEntityTooLarge", "the operations of the patch copy more than 3 MiB");
    }
    object.patch_inplace(json::array({operation}));
  }
  return object;
}

}  // namespace

json parse_body(const std::string& body) {
  json value;
  try {
    value = parse_json(body, "the body", {.depth = depth_limit});
  } catch (const Error& error) {
    throw bad_request(error.what());
  }
  if (!value.is_object() && !value.is_array()) throw bad_request("the body is neither an object nor a list");
  return value;
}

bool is_apply_patch(const std::string& content_type) {
  return content_type.starts_with("application/apply-patch+");
}

json apply_patch(const std::string& content_type, const json& object, const std::string& body) {
  const json patch = parse_body(body);
  json result = object;
  if (content_type.starts_with("application/json-patch+json")) {
    try {
      return patched(object, patch);
    } catch (const json::exception& error) {
      throw StatusError(
          422, "Invalid",
          std::string("the server rejected our request due to an error in our request: ") + error.what());
    }
  }
  if (!patch.is_object()) throw bad_request("the patch is not an object");
  if (content_type.starts_with("application/merge-patch+json")) {
    result.merge_patch(patch);
  } else if (content_type.starts_with("application/strategic-merge-patch+json") ||
             is_apply_patch(content_type)) {
    merge(result, patch);
  } else {
    throw StatusError(415, "UnsupportedMediaType",
                      "the body of the request was in an unknown format: " + content_type);
  }
  return result;
}

}  // namespace mlk::local
