// A data set of the size of MNIST whose labels are those of a fixed network, the teacher: something to learn
// that is the same everywhere and lies in no repository.
//   teacher_data FOLDER       writes 60 000 and 10 000 samples of 784 bytes as IDX files
//
// A sample is a picture of 6 hidden numbers: each pixel is a smooth function of them,
// dark where that is negative, with some noise. The
// teacher is a random network of 784, 32 and 10 units with tanh between; the label is its largest output, and
// where the next one is close to that the sample is left out.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/random.h"

namespace {

constexpr std::uint64_t seed = 20261121;
constexpr float doubt = 0.3f, darkness = 0.08f;  // darkness: the mean of all pixels
constexpr std::size_t hidden_numbers = 6, pixels = 784, units = 32, classes = 10;

enum Stream : std::uint64_t { hidden_stream = 1, noise_stream, picture_stream, first_layer, second_layer };

// Uniform in [-1, 1).
float signed_uniform(Stream stream, std::uint64_t index) {
  return 2 * mlk::rt::uniform(seed, stream, index) - 1;
}

// Row-major, scaled so that sums of `columns` products have the size of one.
std::vector<float> random_matrix(Stream stream, std::size_t rows, std::size_t columns) {
  std::vector<float> values(rows * columns);
  const float scale = std::sqrt(3.0f / static_cast<float>(columns));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = scale * signed_uniform(stream, i);
  return values;
}

float row_times(const std::vector<float>& matrix, std::size_t row, const std::vector<float>& vector) {
  float sum = 0;
  for (std::size_t i = 0; i < vector.size(); ++i) sum += matrix[row * vector.size() + i] * vector[i];
  return sum;
}

struct World {
  std::vector<float> picture = random_matrix(picture_stream, pixels, hidden_numbers);
  std::vector<float> first = random_matrix(first_layer, units, pixels);
  std::vector<float> second = random_matrix(second_layer, classes, units);

  std::vector<std::uint8_t> pixels_of(std::uint64_t sample) const {
    std::vector<float> hidden(hidden_numbers);
    for (std::size_t i = 0; i < hidden.size(); ++i)
      hidden[i] = signed_uniform(hidden_stream, sample * hidden_numbers + i);
    std::vector<std::uint8_t> bytes(pixels);
    for (std::size_t i = 0; i < pixels; ++i) {
      const float noise = 0.05f * signed_uniform(noise_stream, sample * pixels + i);
      const float value = std::tanh(row_times(picture, i, hidden)) - 0.3f + noise;
      bytes[i] = static_cast<std::uint8_t>(std::clamp(255 * value, 0.0f, 255.0f));
    }
    return bytes;
  }

  // Nothing where the teacher is in doubt.
  std::optional<std::uint8_t> label_of(const std::vector<std::uint8_t>& bytes) const {
    std::vector<float> input(pixels), middle(units);
    for (std::size_t i = 0; i < pixels; ++i) input[i] = static_cast<float>(bytes[i]) / 255 - darkness;
    for (std::size_t i = 0; i < units; ++i) middle[i] = std::tanh(5 * row_times(first, i, input));
    std::array<std::pair<float, std::uint8_t>, classes> output{};
    for (std::size_t i = 0; i < classes; ++i)
      output[i] = {row_times(second, i, middle), static_cast<std::uint8_t>(i)};
    std::ranges::sort(output, std::greater());
    if (output[0].first - output[1].first < doubt) return {};
    return output[0].second;
  }
};

void put_header(std::ofstream& out, std::initializer_list<std::uint32_t> sizes) {
  const char head[] = {0, 0, 8, static_cast<char>(sizes.size())};
  out.write(head, sizeof head);
  for (const std::uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) out.put(static_cast<char>(size >> shift & 0xff));
  }
}

bool write(const World& world, const std::string& prefix, std::uint64_t& sample, std::uint32_t count) {
  std::ofstream images(prefix + "-images-idx3-ubyte", std::ios::binary),
      labels(prefix + "-labels-idx1-ubyte", std::ios::binary);
  put_header(images, {count, 28, 28});
  put_header(labels, {count});
  for (std::uint32_t written = 0; written < count; ++sample) {
    const auto bytes = world.pixels_of(sample);
    const auto label = world.label_of(bytes);
    if (!label) continue;
    images.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    labels.put(static_cast<char>(*label));
    ++written;
  }
  images.close();
  labels.close();
  return !images.fail() && !labels.fail();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const World world;
  std::uint64_t sample = 0;
  return write(world, folder + "/train", sample, 60000) && write(world, folder + "/t10k", sample, 10000) ? 0
                                                                                                         : 1;
}
