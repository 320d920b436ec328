#include "cli/local/node/pod_values.h"

#include <cmath>
#include <thread>

#include <nlohmann/json.hpp>

#include "cli/util/hash.h"
#include "cli/util/json_path.h"
#include "cli/util/quantity.h"

namespace mlk::local {

using nlohmann::json;

std::optional<std::string> pod_field(const json& pod, const std::string& path, const std::string& address) {
  const json& metadata = pod.at("metadata");
  const json& spec = pod.at("spec");
  for (const std::string map : {"labels", "annotations"}) {
    const std::string prefix = "metadata." + map + "['";
    if (!path.starts_with(prefix) || !path.ends_with("']")) continue;
    const std::string key = path.substr(prefix.size(), path.size() - prefix.size() - 2);
    return metadata.value(map, json::object()).value(key, "");
  }
  if (path == "metadata.name" || path == "metadata.namespace" || path == "metadata.uid")
    return metadata.value(path.substr(9), "");
  if (path == "spec.nodeName") return "local";
  if (path == "spec.serviceAccountName") return spec.value("serviceAccountName", "default");
  if (path == "status.podIP" || path == "status.podIPs") return address;
  if (path == "status.hostIP" || path == "status.hostIPs") return "127.0.0.1";
  return std::nullopt;
}

std::optional<std::string> resource_field(const json& container, const json& reference) {
  const std::string path = reference.value("resource", "");
  const auto dot = path.find('.');
  if (dot == path.npos) return std::nullopt;
  const std::string kind = path.substr(0, dot), name = path.substr(dot + 1);
  if (kind != "limits" && kind != "requests") return std::nullopt;
  const json resources = container.value("resources", json::object()).value(kind, json::object());
  double amount = 0;
  if (resources.contains(name)) {
    const auto given = parse_quantity(text_or_json(resources.at(name)));
    if (!given) return std::nullopt;
    amount = *given;
  } else if (name == "cpu" && kind == "limits") {
    amount = std::thread::hardware_concurrency();  // without a limit: the CPUs of the node
  }
  double divisor = 1;
  if (reference.contains("divisor"))
    divisor = parse_quantity(text_or_json(reference.at("divisor"))).value_or(1);
  if (divisor <= 0) divisor = 1;
  return std::to_string(static_cast<long long>(std::ceil(amount / divisor)));
}

std::map<std::string, std::string> data_of(const json& object) {
  std::map<std::string, std::string> result;
  const bool secret = object.value("kind", "") == "Secret";
  for (const auto& [key, value] : at_path(object, {"data"}).items()) {
    result[key] = secret ? base64_decode(value.get<std::string>()) : value.get<std::string>();
  }
  for (const auto& [key, value] : at_path(object, {"binaryData"}).items()) {
    result[key] = base64_decode(value.get<std::string>());
  }
  return result;
}

}  // namespace mlk::local
