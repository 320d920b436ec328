// Small IDX data sets for tests: bytes of files, and a data set that a model can learn.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>

#include "tests/unit/runtime/temporary_folder.h"

namespace mlk::test {

// The header of an IDX file of bytes.
inline std::string idx_header(std::initializer_list<std::uint32_t> sizes) {
  std::string header = {0, 0, 8, static_cast<char>(sizes.size())};
  for (std::uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) header += static_cast<char>(size >> shift & 0xff);
  }
  return header;
}

inline constexpr const char* train_images = "train-images-idx3-ubyte";
inline constexpr const char* train_labels = "train-labels-idx1-ubyte";
inline constexpr const char* held_out_images = "t10k-images-idx3-ubyte";
inline constexpr const char* held_out_labels = "t10k-labels-idx1-ubyte";

// 3 classes of 4x4 images. Sample i has the label i % 3. The rows `label` and `label` + 1 of its image are
// bright, with some noise.
inline void write_learnable(const std::filesystem::path& folder) {
  std::uint32_t noise = 1;
  const auto write_part = [&](const char* images, const char* labels, std::uint32_t count) {
    std::string pixels = idx_header({count, 4, 4}), classes = idx_header({count});
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t label = i % 3;
      classes += static_cast<char>(label);
      for (std::uint32_t pixel = 0; pixel < 16; ++pixel) {
        noise = noise * 1664525 + 1013904223;
        const bool bright = pixel / 4 == label || pixel / 4 == label + 1;
        pixels += static_cast<char>((bright ? 150 : 0) + (noise >> 24) * 100 / 256);
      }
    }
    write_file(folder / images, pixels);
    write_file(folder / labels, classes);
  };
  write_part(train_images, train_labels, 100);
  write_part(held_out_images, held_out_labels, 40);
}

}  // namespace mlk::test
