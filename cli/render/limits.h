// Limits of Kubernetes objects.
#pragma once

#include <cstddef>

namespace mlk {

// The most bytes of content that mlk puts into one ConfigMap. Kubernetes allows 1 MiB for content, names and
// metadata together.
inline constexpr std::size_t most_config_map_bytes = 900 * 1024;

}  // namespace mlk
