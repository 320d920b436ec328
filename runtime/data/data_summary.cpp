#include "runtime/data/data_summary.h"

#include "runtime/base/crc32c.h"

namespace mlk::rt {

std::uint32_t sampled_crc32c(std::span<const std::uint8_t> bytes, std::uint64_t most,
                             std::uint32_t previous) {
  constexpr std::uint64_t block = 64 * 1024;
  const std::uint64_t size = bytes.size();
  std::uint32_t crc = crc32c(&size, sizeof size, previous);
  if (size <= most || size <= 2 * block) return crc32c(bytes.data(), size, crc);
  const std::uint64_t blocks = most < 2 * block ? 2 : most / block, last = size - block;
  for (std::uint64_t i = 0; i < blocks; ++i)
    crc = crc32c(bytes.data() + last / (blocks - 1) * i + last % (blocks - 1) * i / (blocks - 1), block, crc);
  return crc;
}

std::string describe_other_data(const DataSummary& before, const DataSummary& now) {
  if (before.train == now.train) return "";
  const std::string samples = std::to_string(now.train.samples) + " samples to train on";
  return now.train.samples == before.train.samples
             ? samples + ", as before, but not the same ones"
             : samples + ", and before there were " + std::to_string(before.train.samples);
}

std::string refuse_other_data(const std::optional<DataSummary>& before, const std::optional<DataSummary>& now,
                              std::uint64_t step) {
  const std::string differs = before && now ? describe_other_data(*before, *now) : "";
  if (differs.empty()) return "";
  return "this is not the data that the checkpoint of step " + std::to_string(step) +
         " was trained with: " + differs +
         "; put that back, or, to go on with this on purpose, take \"data\" out of the checkpoint's "
         "manifest.json";
}

}  // namespace mlk::rt
