// Replaces the references ${...} of a template by their values. Works on the tree, never on the text.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/render/templates.h"
#include "cli/yaml/yaml.h"

namespace mlk {

// Returns the node as JSON:
// - A scalar that is exactly ${a.b} becomes the value of that name in `scope`, with its type. If the value is
//   null, the key or list entry is left out.
// - In any other scalar, the value of ${a.b} becomes a part of the text. $${ becomes a literal ${.
// - A map with $if is left out if the value of $if is null, false, 0 or empty.
// Kubernetes' own $(NAME) is not changed. Throws Error{usage} for an unknown name, and for a map, a
// list or null inside a text. The error names the template, the line and the column.
nlohmann::json evaluate(const YamlNode& node, const nlohmann::json& scope);

// The name of a template in messages: its path, or the user's file.
std::string name_of_template(const Templates& templates, const std::string& path);

// The tree of a template. Throws Error: not_found if there is no such template, usage if it is not valid
// YAML.
std::shared_ptr<const YamlNode> parse_template(const Templates& templates, const std::string& path);

}  // namespace mlk
