#include "cli/image/compose.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/util/hash.h"

namespace mlk::image {

using nlohmann::json;

namespace {

constexpr char time_of_all[] = "1980-01-01T00:00:00Z";

json described(const Descriptor& blob) {
  json out = {{"mediaType", blob.media_type}, {"digest", blob.digest}, {"size", blob.size}};
  if (!blob.purpose.empty()) out["annotations"] = {{purpose_annotation, blob.purpose}};
  return out;
}

void set_variable(json& variables, const std::string& name, const std::string& value) {
  if (!variables.is_array()) variables = json::array();
  const auto is_it = [&](const json& each) {
    return each.is_string() && each.get_ref<const std::string&>().starts_with(name + "=");
  };
  const auto first = std::find_if(variables.begin(), variables.end(), is_it);
  if (first == variables.end()) {
    variables.push_back(name + "=" + value);
    return;
  }
  *first = name + "=" + value;
  // Removes further entries of the same name, because programs would use the last entry.
  variables.erase(std::remove_if(first + 1, variables.end(), is_it), variables.end());
}

json configuration_of(const std::optional<Base>& base, const std::vector<Addition>& additions,
                      const Settings& settings) {
  json out = base ? base->configuration.whole : json::object();
  if (!base) {
    out["os"] = settings.platform.os;
    out["architecture"] = settings.platform.architecture;
    if (!settings.platform.variant.empty()) out["variant"] = settings.platform.variant;
    out["created"] = time_of_all;
    out["rootfs"] = {{"type", "layers"}, {"diff_ids", json::array()}};
  }
  json& config = out["config"];
  if (!config.is_object()) config = json::object();
  for (const auto& [name, value] : settings.env) set_variable(config["Env"], name, value);
  if (!settings.workdir.empty()) config["WorkingDir"] = settings.workdir;
  if (!settings.user.empty()) config["User"] = settings.user;
  if (!settings.entrypoint.empty()) {
    config["Entrypoint"] = settings.entrypoint;
    config.erase("Cmd");
  }
  json& history = out["history"];
  if (!history.is_array()) history = json::array();
  // To read an image, programs match each layer with one history entry, and skip entries with "empty_layer".
  // If a base does not have exactly one entry without "empty_layer" for each layer, mlk adds no entries.
  const auto told = std::count_if(history.begin(), history.end(), [](const json& entry) {
    return entry.is_object() && !(entry.contains("empty_layer") && entry["empty_layer"] == true);
  });
  const bool is_told = std::size_t(told) == out["rootfs"]["diff_ids"].size();
  for (const Addition& addition : additions) {
    out["rootfs"]["diff_ids"].push_back(addition.layer.diff_id);
    if (is_told)
      history.push_back({{"created", time_of_all}, {"created_by", "mlk build: " + addition.purpose}});
  }
  if (history.empty()) out.erase("history");
  return out;
}

}  // namespace

Composed compose(const std::optional<Base>& base, const std::vector<Addition>& additions,
                 const Settings& settings) {
  const MediaTypes& types = base && base->manifest.is_docker() ? docker_types : oci_types;
  Composed out;
  out.manifest_type = types.manifest;
  // The configuration of a base may have bytes that are not UTF-8. Such bytes must not end the build.
  const auto text = [](const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  out.configuration = text(configuration_of(base, additions, settings));
  out.configuration_blob = {.media_type = types.configuration,
                            .digest = "sha256:" + sha256_hex(out.configuration),
                            .size = out.configuration.size()};
  json layers = json::array();
  if (base) out.of_base = base->manifest.layers;
  for (const Descriptor& layer : out.of_base) layers.push_back(described(layer));
  for (const Addition& addition : additions) {
    Layer layer = addition.layer;
    layer.blob.media_type = types.layer;
    layer.blob.purpose = addition.purpose;
    layers.push_back(described(layer.blob));
    out.own.push_back(std::move(layer));
  }
  out.manifest = text({{"schemaVersion", 2},
                       {"mediaType", types.manifest},
                       {"config", described(out.configuration_blob)},
                       {"layers", layers}});
  out.digest = "sha256:" + sha256_hex(out.manifest);
  return out;
}

}  // namespace mlk::image
