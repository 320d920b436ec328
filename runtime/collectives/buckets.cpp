#include "runtime/collectives/buckets.h"

#include <ranges>

namespace mlk::rt {
namespace {

constexpr std::size_t least_bucket_floats = 256 * 1024;

}  // namespace

std::vector<Bucket> plan_buckets(std::span<const TensorInfo> tensors, std::size_t front) {
  std::vector<Bucket> buckets;
  std::size_t end = front + (tensors.empty() ? 0 : tensors.back().offset + tensors.back().size);
  for (const TensorInfo& tensor : std::views::reverse(tensors)) {
    const std::size_t begin = front + tensor.offset;
    if (end - begin < least_bucket_floats || begin < least_bucket_floats) continue;
    if (buckets.size() + 1 == most_buckets) break;
    buckets.push_back({begin, end - begin});
    end = begin;
  }
  buckets.push_back({0, end});
  return buckets;
}

}  // namespace mlk::rt
