#include "runtime/data/sampler.h"

#include <algorithm>
#include <set>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/data/sampler");

using namespace mlk::rt;

namespace {

std::vector<std::uint64_t> epoch_of(std::uint64_t seed, std::uint64_t epoch, std::uint64_t size) {
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < size; ++i) ids.push_back(sample_at(seed, epoch * size + i, size));
  return ids;
}

}  // namespace

TEST_CASE("each epoch has each sample exactly once, for data sets of many sizes") {
  for (std::uint64_t size : {1u, 2u, 3u, 4u, 5u, 15u, 16u, 17u, 255u, 256u, 257u, 1500u}) {
    for (std::uint64_t epoch : {0u, 1u, 77u}) {
      auto ids = epoch_of(3, epoch, size);
      std::ranges::sort(ids);
      for (std::uint64_t i = 0; i < size; ++i) REQUIRE(ids[i] == i);
    }
  }
}

TEST_CASE(
    "each epoch of each seed has its own order of the samples, and no epoch has the order of the files") {
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch) orders.insert(epoch_of(seed, epoch, 100));
  }
  CHECK(orders.size() == 25);
  std::vector<std::uint64_t> ascending(100);
  for (std::uint64_t i = 0; i < 100; ++i) ascending[i] = i;
  CHECK(!orders.contains(ascending));
}

TEST_CASE("in many epochs together, each sample comes first about equally often") {
  // Counts each of 16 samples at the first position of many epochs: 1000 are expected, with a standard
  // deviation of 31.
  std::vector<int> count(16);
  for (std::uint64_t epoch = 0; epoch < 16000; ++epoch) ++count[sample_at(9, epoch * 16, 16)];
  CHECK(*std::ranges::min_element(count) > 1000 - 6 * 31);
  CHECK(*std::ranges::max_element(count) < 1000 + 6 * 31);
}

TEST_CASE("sample_at accepts large positions and sizes") {
  const std::uint64_t size = (std::uint64_t{1} << 40) + 1;
  CHECK(sample_at(1, 0, size) < size);
  CHECK(sample_at(1, size * 1000 + 17, size) < size);
}

TEST_CASE("the order of the samples is the same on every machine and in every version") {
  // A resumed run relies on this order: change these numbers only together with the schema of
  // checkpoints.
  CHECK(epoch_of(1, 0, 8) == std::vector<std::uint64_t>{6, 7, 3, 2, 0, 4, 5, 1});
  CHECK(epoch_of(1, 1, 8) == std::vector<std::uint64_t>{2, 7, 6, 3, 1, 4, 0, 5});
  CHECK(epoch_of(1, 1, 4) == std::vector<std::uint64_t>{1, 2, 0, 3});
  CHECK(epoch_of(1, 1, 16) ==
        std::vector<std::uint64_t>{10, 7, 6, 3, 8, 4, 11, 5, 9, 1, 15, 0, 14, 12, 13, 2});
  CHECK(epoch_of(1, 1, 17) ==
        std::vector<std::uint64_t>{3, 15, 0, 10, 9, 12, 5, 16, 4, 1, 13, 7, 2, 14, 8, 6, 11});
}
