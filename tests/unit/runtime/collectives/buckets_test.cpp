#include "runtime/collectives/buckets.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/collectives/buckets");

using namespace mlk::rt;

namespace {

std::vector<TensorInfo> tensors_of(const std::vector<std::size_t>& sizes) {
  std::vector<TensorInfo> tensors;
  std::size_t offset = 0;
  for (const std::size_t size : sizes) {
    tensors.push_back({"t", {static_cast<std::int64_t>(size)}, offset, size});
    offset += size;
  }
  return tensors;
}

constexpr std::size_t mega = 1'000'000;

}  // namespace

TEST_CASE("a small model and the floats in front of it are one bucket") {
  CHECK(plan_buckets(tensors_of({100, 10}), 2) == std::vector<Bucket>{{0, 112}});
  CHECK(plan_buckets({}, 2) == std::vector<Bucket>{{0, 2}});
}

TEST_CASE("each bucket begins with a tensor, the last tensors come first, and small tensors share a bucket") {
  CHECK(plan_buckets(tensors_of({mega, 100, mega, 100, 500, 10}), 2) ==
        std::vector<Bucket>{{mega + 102, mega + 610}, {0, mega + 102}});
  CHECK(plan_buckets(tensors_of({50, mega}), 2) == std::vector<Bucket>{{0, mega + 52}});
}

TEST_CASE(
    "plan_buckets() makes at most `most_buckets` buckets, and all buckets together are the whole vector") {
  const auto buckets = plan_buckets(tensors_of(std::vector<std::size_t>(200, mega)), 2);
  CHECK(buckets.size() == most_buckets);
  std::size_t end = 200 * mega + 2;
  for (const Bucket& bucket : buckets) {
    CHECK(bucket.offset + bucket.size == end);
    end = bucket.offset;
  }
  CHECK(end == 0);
}

TEST_CASE(
    "plan_buckets() gives two tensors separate buckets only if both buckets get at least 256 Ki floats") {
  constexpr std::size_t least = 256 * 1024;
  const auto plan = [](std::size_t first, std::size_t second) {
    const std::vector<TensorInfo> tensors = {{"a", {1}, 0, first}, {"b", {1}, first, second}};
    return plan_buckets(tensors, 2);
  };
  CHECK(plan(least - 2, least) == std::vector<Bucket>{{least, least}, {0, least}});
  CHECK(plan(least - 3, least) == std::vector<Bucket>{{0, 2 * least - 1}});
  CHECK(plan(least - 2, least - 1) == std::vector<Bucket>{{0, 2 * least - 1}});
}
