// Checks the values of single keys by the type of the key, and converts the values to JSON.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/schema.h"
#include "cli/yaml/problems.h"
#include "cli/yaml/yaml.h"

namespace mlk {

// Returns the node as normalised JSON. For each mistake, adds a problem with `path` in its text, and returns
// null in place of the wrong value or the wrong entry of a list. For every type except sections.
nlohmann::json check_value(const YamlNode& node, const Key& key, const std::string& path, Problems& problems);

// "'many'", "a list", "nothing": the description of an unexpected value in messages.
std::string describe(const YamlNode& node);

bool is_dns_label(std::string_view text, std::size_t longest);

// The bytes of a Kubernetes memory quantity such as 512Mi, 1.5G or 1000; nullopt if the text is no quantity,
// is zero or is too large.
std::optional<long long> memory_bytes(std::string_view text);
// A quantity of CPUs such as 2, 0.5 or 250m, in thousandths of a CPU; nullopt in the same cases as
// memory_bytes().
std::optional<long long> cpu_millis(std::string_view text);

}  // namespace mlk
