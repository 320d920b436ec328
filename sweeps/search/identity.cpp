#include "sweeps/search/identity.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "sweeps/space/names.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

void erase_path(json& value, const std::string& path) {
  json* at = &value;
  const std::vector<std::string> steps = split(path, '.');
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool last = i + 1 == steps.size();
    if (at->is_array()) {
      const std::size_t index = is_whole_number(steps[i]) ? std::stoul(steps[i].substr(0, 9)) : at->size();
      if (index >= at->size()) return;
      if (last) (*at)[index] = nullptr;
      at = &(*at)[index];
    } else {
      const auto found = at->is_object() ? at->find(steps[i]) : at->end();
      if (!at->is_object() || found == at->end()) return;
      if (last) {
        at->erase(found);
        return;
      }
      at = &*found;
    }
  }
}

// Replaces short forms such as `workers` by `roles.worker`, so that both spellings give the same identity.
void spell_out_roles(json& experiment) {
  for (const auto& [short_form, role] : {std::pair("workers", "worker"), std::pair("servers", "server")}) {
    if (!experiment.contains(short_form)) continue;
    if (experiment.contains("roles") && !experiment["roles"].is_object()) continue;
    experiment["roles"][role] = std::move(experiment[short_form]);
    experiment.erase(short_form);
  }
}

std::string spelled_out(const std::string& path) {
  if (path.starts_with("workers.")) return "roles.worker." + path.substr(8);
  if (path.starts_with("servers.")) return "roles.server." + path.substr(8);
  return path;
}

// Everything that decides the identity of a sweep, except its files.
json what_makes(const YamlNode& base, const Spec& spec, const Templates& templates) {
  json experiment = json_of_experiment(base);
  spell_out_roles(experiment);
  json parameters = json::array();
  for (const Parameter& parameter : spec.space.parameters) {
    erase_path(experiment, spelled_out(parameter.path));
    parameters.push_back(parameter.path);
  }
  std::sort(parameters.begin(), parameters.end());
  for (const char* key : {"tags", "note"}) experiment.erase(key);
  json what = {{"experiment", experiment}, {"parameters", parameters}, {"sweep", spec.decides}};
  for (const auto& [path, digest] : own_templates(templates)) what["templates"][path] = digest;
  return what;
}

}  // namespace

Identity identify_sweep(const std::string& name, const YamlNode& base, const Spec& spec, const json& digests,
                        const Templates& templates) {
  json what = what_makes(base, spec, templates);
  what["files"] = digests;
  const std::string text = json_text(what);
  constexpr std::size_t suffix = 5;
  return {fmt::format("{}-{}", name, sha256_base32(text, suffix)), sha256_hex(text)};
}

std::string kin_of_sweep(const YamlNode& base, const Spec& spec, const Templates& templates) {
  json what = what_makes(base, spec, templates);
  for (const char* path : {"image", "run", "code", "data", "train.data.path", "train.data.format"})
    erase_path(what["experiment"], path);
  return sha256_hex(json_text(what));
}

}  // namespace mlk::sweeps
