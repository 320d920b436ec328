// Summaries by which a run recognises its data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace mlk::rt {

// The number of samples, and a checksum over their content. Compressed files have the same summary as the
// files that are unpacked from them.
struct DataSummary {
  struct Part {
    std::uint64_t samples = 0;
    std::uint32_t crc32c = 0;

    bool operator==(const Part&) const = default;
  };
  Part train, held_out;

  bool operator==(const DataSummary&) const = default;
};

// A checksum over the length of these bytes and over the bytes themselves. If there are more than `most`
// bytes, the checksum covers only about `most` of them, in evenly spread blocks of 64 KiB that include the
// first and the last byte. Pure.
std::uint32_t sampled_crc32c(std::span<const std::uint8_t> bytes, std::uint64_t most, std::uint32_t previous);

// How the samples to train on differ from the samples of a checkpoint: "1500 samples, as before, but not the
// same ones". Empty if they do not differ. Pure.
std::string describe_other_data(const DataSummary& before, const DataSummary& now);

// Why a run does not continue from a checkpoint of this step that was trained with `before`. Empty: the run
// continues, even if `before` or `now` is not known. Pure.
std::string refuse_other_data(const std::optional<DataSummary>& before, const std::optional<DataSummary>& now,
                              std::uint64_t step);

}  // namespace mlk::rt
