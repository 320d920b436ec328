#include "cli/render/identity.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/render/user.h"
#include "cli/util/hash.h"

namespace mlk {

Identity identify(const Experiment& experiment, const nlohmann::json& digests, const Templates& templates,
                  int attempt) {
  nlohmann::json what = {{"experiment", experiment.effective}, {"files", digests}};
  what["experiment"].erase("tags");
  what["experiment"].erase("note");
  what["experiment"].erase("registry");
  if (what["experiment"].value("user", nlohmann::json()) == user_auto) what["experiment"].erase("user");
  for (const auto& [path, digest] : own_templates(templates)) what["templates"][path] = digest;
  const std::string text = what.dump();
  constexpr std::size_t suffix = 5;
  std::string run = fmt::format("{}-{}", experiment.name, sha256_base32(text, suffix));
  if (attempt > 1) run += fmt::format("-{}", attempt);
  return {run, sha256_hex(text)};
}

std::map<std::string, std::string> own_templates(const Templates& templates) {
  std::map<std::string, std::string> digests;
  for (const auto& [path, file] : templates.all()) {
    if (file.source != built_in_source) digests[path] = sha256_hex(file.text);
  }
  return digests;
}

}  // namespace mlk
