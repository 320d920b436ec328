// Limits of Kubernetes objects.
#pragma once

#include <cstddef>

namespace mlk {

// Bytes of content that go into one ConfigMap. It may hold 1 MiB, its names and metadata included.
inline constexpr std::size_t most_config_map_bytes = 900 * 1024;

}  // namespace mlk
