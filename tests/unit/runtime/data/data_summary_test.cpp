#include "runtime/data/data_summary.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/data/data_summary");

namespace mlk::rt {
namespace {
namespace data_summaries {

constexpr std::uint64_t block = 64 * 1024;

TEST_CASE("sampled_crc32c() of short data changes if a byte or the length changes") {
  std::vector<std::uint8_t> bytes(3 * block, 7);
  const std::uint32_t whole = sampled_crc32c(bytes, bytes.size(), 0);
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, block, 2 * block - 1, bytes.size() - 1}) {
    auto other = bytes;
    ++other[at];
    CHECK(sampled_crc32c(other, bytes.size(), 0) != whole);
  }
  CHECK(sampled_crc32c(std::span(bytes).first(block), 9 * block, 0) != whole);
  CHECK(sampled_crc32c({}, 9, 0) != sampled_crc32c({}, 9, 1));
}

TEST_CASE(
    "sampled_crc32c() of long data depends on the first block, the last block and some blocks between them") {
  std::vector<std::uint8_t> bytes(100 * block + 5, 7);
  const std::uint64_t most = 4 * block;
  const std::uint32_t whole = sampled_crc32c(bytes, most, 0);
  std::size_t seen = 0;
  for (std::size_t at = 0; at < bytes.size(); at += block / 2) {
    auto& byte = bytes[at];
    ++byte;
    seen += sampled_crc32c(bytes, most, 0) != whole;
    --byte;
  }
  CHECK(seen >= 6);
  CHECK(seen <= 10);
  for (const std::size_t at : {std::size_t{0}, block - 1, bytes.size() - block, bytes.size() - 1}) {
    CAPTURE(at);
    ++bytes[at];
    CHECK(sampled_crc32c(bytes, most, 0) != whole);
    --bytes[at];
  }
  CHECK(sampled_crc32c(bytes, most, 0) == whole);
  CHECK(sampled_crc32c(std::span(bytes).first(bytes.size() - 1), most, 0) != whole);
}

TEST_CASE("refuse_other_data() refuses a checkpoint if its training data are known to differ") {
  const DataSummary before{{1500, 1}, {297, 2}};
  const auto refused = [&](const std::optional<DataSummary>& now) {
    return refuse_other_data(before, now, 7);
  };
  CHECK(refused(before).empty());
  CHECK(refused({}).empty());
  CHECK(refuse_other_data({}, before, 7).empty());
  CHECK(refused(DataSummary{{1500, 1}, {300, 3}}).empty());  // other held-out samples
  const std::string begin = "this is not the data that the checkpoint of step 7 was trained with: ";
  CHECK(
      refused(DataSummary{{1500, 3}, {297, 2}})
          .starts_with(begin + "1500 samples to train on, as before, but not the same ones; put that back"));
  CHECK(refused(DataSummary{{1501, 1}, {297, 2}})
            .starts_with(begin + "1501 samples to train on, and before there were 1500; put that back"));
}

}  // namespace data_summaries
}  // namespace
}  // namespace mlk::rt
