// Limits of Kubernetes objects.
#pragma once

#include <cstddef>

namespace mlk {

// The limit for bytes of content in one ConfigMap. Kubernetes allows 1 MiB for a ConfigMap with its names and
// metadata.
inline constexpr std::size_t most_config_map_bytes = 900 * 1024;

}  // namespace mlk
