// The values of single keys: from a node to JSON, by the key's type.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/problems.h"
#include "cli/experiment/schema.h"
#include "cli/experiment/yaml.h"

namespace mlk {

// The node as JSON, normalised; null after adding a problem that names `path`. For every type but the
// sections.
nlohmann::json check_value(const YamlNode& node, const Key& key, const std::string& path, Problems& problems);

// "'many'", "a list", "nothing": what a message says came instead of what was expected.
std::string describe(const YamlNode& node);

bool is_dns_label(std::string_view text, std::size_t longest);

// Bytes of a Kubernetes memory quantity such as 512Mi, 1.5G or 1000; nullopt when it is none, is zero or is
// too large. CPUs of 2, 0.5 or 250m in thousandths.
std::optional<long long> memory_bytes(std::string_view text);
std::optional<long long> cpu_millis(std::string_view text);

}  // namespace mlk
