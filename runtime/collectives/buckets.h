// Divides the gradients into parts that are summed while the remaining gradients are still being computed.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/model/model.h"

namespace mlk::rt {

// Floats [offset, offset + size) of a vector that the members sum.
struct Bucket {
  std::size_t offset = 0, size = 0;

  bool operator==(const Bucket&) const = default;
};

inline constexpr std::size_t most_buckets = 64;

// The vector begins with `front` floats that are no gradients; the gradients of the tensors follow. The
// backward pass completes the gradients from the last tensor to the first. The buckets are in that order and
// adjacent. Each has 1 MiB or more (a smaller vector is one bucket), so that latency is negligible (S. Li et
// al., PyTorch Distributed, VLDB 2020). Each begins with a tensor, except the last bucket, which begins at 0.
std::vector<Bucket> plan_buckets(std::span<const TensorInfo> tensors, std::size_t front);

}  // namespace mlk::rt
