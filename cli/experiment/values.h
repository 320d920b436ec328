// The values of single keys: from a node to JSON, by the type of the key.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/problems.h"
#include "cli/experiment/schema.h"
#include "cli/experiment/yaml.h"

namespace mlk {

// The node as normalised JSON; null after adding a problem that names `path`. For every type except the
// sections.
nlohmann::json check_value(const YamlNode& node, const Key& key, const std::string& path, Problems& problems);

// "'many'", "a list", "nothing": how a message describes a value that was not expected.
std::string describe(const YamlNode& node);

bool is_dns_label(std::string_view text, std::size_t longest);

// The bytes of a Kubernetes memory quantity such as 512Mi, 1.5G or 1000; nullopt if it is not one, is zero or
// is too large. For CPUs such as 2, 0.5 or 250m: thousandths.
std::optional<long long> memory_bytes(std::string_view text);
std::optional<long long> cpu_millis(std::string_view text);

}  // namespace mlk
