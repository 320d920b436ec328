#include "cli/local/state/metadata.h"

#include <algorithm>

#include "cli/util/hash.h"
#include "cli/util/json_path.h"

namespace mlk::local {

using nlohmann::json;

std::string new_uid() {
  std::string bytes = random_bytes(16);
  bytes[6] = static_cast<char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<char>((bytes[8] & 0x3f) | 0x80);
  std::string text = hex(bytes);
  for (const std::size_t at : {8u, 13u, 18u, 23u}) text.insert(at, "-");
  return text;
}

std::string uid_of(const json& object) { return object.at("metadata").at("uid").get<std::string>(); }

std::string random_suffix() {
  constexpr char letters[] = "bcdfghjklmnpqrstvwxz2456789";
  std::string suffix;
  for (const char byte : random_bytes(5))
    suffix += letters[static_cast<unsigned char>(byte) % (sizeof letters - 1)];
  return suffix;
}

const std::string& name_of(const json& object) { return text_of(object, {"metadata", "name"}); }
const std::string& namespace_of(const json& object) { return text_of(object, {"metadata", "namespace"}); }

bool has_finalizer(const json& object, const char* name) {
  const json& finalizers = at_path(object, {"metadata", "finalizers"});
  return std::any_of(finalizers.begin(), finalizers.end(),
                     [&](const json& each) { return text_of(each, {}) == name; });
}

void drop_finalizer(json& object, const char* name) {
  json& metadata = object["metadata"];
  if (!metadata.contains("finalizers")) return;
  json& list = metadata["finalizers"];
  list.erase(std::remove(list.begin(), list.end(), json(name)), list.end());
  if (list.empty()) metadata.erase("finalizers");
}

bool has_ended(const json& pod) {
  const std::string& phase = text_of(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

}  // namespace mlk::local
