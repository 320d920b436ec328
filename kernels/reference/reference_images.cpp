// The operations on images, computed as their definitions say.
#include <cmath>
#include <vector>

#include "kernels/reference/index.h"
#include "kernels/reference/reference_ops.h"

namespace mlk::kernels {
namespace {

// The offset of the first channel of a pixel.
std::size_t pixel(const ImageShape& shape, int image, int y, int x) {
  return index((image * shape.height + y) * shape.width + x, shape.channels, 0);
}

// Calls term(offset in x, offset in the weight of one output, index of the output's pixel) for each pixel of
// the output and each number of x that this pixel depends on.
template <typename Term>
void over_windows(const ImageShape& shape, int kernel, Term term) {
  const int reach = kernel / 2;
  for (int row = 0; row < shape.pixels(); ++row) {
    const int image = row / (shape.height * shape.width), y = row / shape.width % shape.height,
              x = row % shape.width;
    for (int i = 0; i < kernel * kernel * shape.channels; ++i) {
      const int from_y = y + i / shape.channels / kernel - reach,
                from_x = x + i / shape.channels % kernel - reach;
      if (from_y < 0 || from_y >= shape.height || from_x < 0 || from_x >= shape.width) continue;
      term(pixel(shape, image, from_y, from_x) + static_cast<std::size_t>(i % shape.channels), i, row);
    }
  }
}

std::vector<float> as_floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

// Calls use(offset of the largest number, offset in the pooled image) for each channel of each square. If
// several numbers are the largest, the first one is used.
template <typename Use>
void over_squares(const ImageShape& shape, const float* x, Use use) {
  const ImageShape pooled{shape.batch, shape.height / 2, shape.width / 2, shape.channels};
  for (int row = 0; row < pooled.pixels(); ++row) {
    const int image = row / (pooled.height * pooled.width), top = row / pooled.width % pooled.height * 2,
              left = row % pooled.width * 2;
    for (int channel = 0; channel < shape.channels; ++channel) {
      const auto at = [&](int i) {
        return pixel(shape, image, top + i / 2, left + i % 2) + static_cast<std::size_t>(channel);
      };
      std::size_t largest = at(0);
      for (int i = 1; i < 4; ++i) {
        // A NaN counts as larger than every number, so that the result shows it.
        if (x[at(i)] > x[largest] || (std::isnan(x[at(i)]) && !std::isnan(x[largest]))) largest = at(i);
      }
      use(largest, index(row, shape.channels, channel));
    }
  }
}

}  // namespace

void ReferenceOps::convolve(const ImageShape& shape, int outputs, int kernel, const float* x,
                            const float* weight, float* out) {
  const int inner = kernel * kernel * shape.channels;
  std::vector<double> sums(index(shape.pixels(), outputs, 0));
  over_windows(shape, kernel, [&](std::size_t in, int i, int row) {
    for (int output = 0; output < outputs; ++output)
      sums[index(row, outputs, output)] += double{x[in]} * weight[index(output, inner, i)];
  });
  const std::vector<float> rounded = as_floats(sums);
  std::copy(rounded.begin(), rounded.end(), out);
}

void ReferenceOps::convolve_backward(const ImageShape& shape, int outputs, int kernel, const float* x,
                                     const float* weight, const float* delta, float* x_gradient,
                                     float* weight_gradient) {
  const int inner = kernel * kernel * shape.channels;
  std::vector<double> by_x(index(shape.pixels(), shape.channels, 0)), by_weight(index(outputs, inner, 0));
  over_windows(shape, kernel, [&](std::size_t in, int i, int row) {
    for (int output = 0; output < outputs; ++output) {
      const double d = delta[index(row, outputs, output)];
      by_x[in] += d * weight[index(output, inner, i)];
      by_weight[index(output, inner, i)] += d * x[in];
    }
  });
  const std::vector<float> of_weight = as_floats(by_weight), of_x = as_floats(by_x);
  std::copy(of_weight.begin(), of_weight.end(), weight_gradient);
  if (x_gradient) std::copy(of_x.begin(), of_x.end(), x_gradient);
}

void ReferenceOps::max_pool(const ImageShape& shape, const float* x, float* out) {
  over_squares(shape, x, [&](std::size_t largest, std::size_t place) { out[place] = x[largest]; });
}

void ReferenceOps::max_pool_backward(const ImageShape& shape, const float* x, const float* delta,
                                     float* x_gradient) {
  for (std::size_t i = 0; i < index(shape.pixels(), shape.channels, 0); ++i) x_gradient[i] = 0;
  over_squares(shape, x, [&](std::size_t largest, std::size_t place) { x_gradient[largest] = delta[place]; });
}

}  // namespace mlk::kernels
