// The rules that the table of keys cannot express. Most of them refuse values of several keys that do not fit
// together.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/load.h"
#include "cli/yaml/problems.h"
#include "cli/yaml/yaml.h"

namespace mlk {

// The most characters of a role's name: <run>-<role>-<index> has to fit a host name.
inline constexpr std::size_t longest_role = 10;

// Completes `effective` (writes out short forms, fills in defaults that depend on other keys) and adds
// impossible combinations to `problems`, with their place in `root`. `effective` comes from check_section().
// The rules skip values that check_section() has refused.
void apply_rules(const YamlNode& root, nlohmann::json& effective, const TemplateNames& template_names,
                 const FileContext& file_context, Problems& problems);

}  // namespace mlk
