// Which parts of the gradients are added up while the others are still computed.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/model/model.h"

namespace mlk::rt {

// Floats [offset, offset + size) of a vector that is added up over the members.
struct Bucket {
  std::size_t offset = 0, size = 0;

  bool operator==(const Bucket&) const = default;
};

inline constexpr std::size_t most_buckets = 64;

// The vector is `front` floats of other things, then the gradients of the tensors. The backward pass
// completes these from the last to the first, and in that order are the buckets: adjacent, each beginning
// with a tensor, each of 1 MiB or more, so that latency is nothing beside it (S. Li et al., PyTorch
// Distributed, VLDB 2020). The last one begins at 0. A small model is one bucket.
std::vector<Bucket> plan_buckets(std::span<const TensorInfo> tensors, std::size_t front);

}  // namespace mlk::rt
