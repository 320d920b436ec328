// By what a run knows its data again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace mlk::rt {

// The number of samples, and a checksum over their content, not over files: the same data compressed, or in
// other files, is the same.
struct DataSummary {
  struct Part {
    std::uint64_t samples = 0;
    std::uint32_t crc32c = 0;

    bool operator==(const Part&) const = default;
  };
  Part train, held_out;

  bool operator==(const DataSummary&) const = default;
};

// A checksum over the length of these bytes and over all of them; over `most` of them, in blocks of 64 KiB
// that are spread evenly, the first and the last among them, if there are more. Pure.
std::uint32_t sampled_crc32c(std::span<const std::uint8_t> bytes, std::uint64_t most, std::uint32_t previous);

// How the samples to train on differ from those that a checkpoint knows: "1500 samples, as before, but not
// the same ones". Empty if they do not. Pure.
std::string describe_other_data(const DataSummary& before, const DataSummary& now);

// Why a run does not go on from a checkpoint of this step that knows `before`. Empty: it goes on, also where
// one of them is not known. Pure.
std::string refuse_other_data(const std::optional<DataSummary>& before, const std::optional<DataSummary>& now,
                              std::uint64_t step);

}  // namespace mlk::rt
