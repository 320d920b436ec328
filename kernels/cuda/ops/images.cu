// Convolutions as products: im2col copies the window around each pixel into a row. Also the max pool: the
// largest of each square of pixels.
#include "kernels/cuda/base/elementwise.h"
#include "kernels/cuda/base/kernels.h"

namespace mlk::cuda {
namespace {

// The window of a pixel: kernel x kernel pixels, with all their channels.
struct Window {
  int height, width, channels, kernel;

  // Sets `at` to the place in the images where element `i` of the window of pixel `row` lies. Returns false
  // if this element lies outside the image.
  __device__ bool place(std::size_t row, std::size_t i, std::size_t& at) const {
    const auto pixel = static_cast<long long>(row), number = static_cast<long long>(i);
    const long long across = number / channels % kernel, down = number / channels / kernel;
    const long long y = pixel / width % height + down - kernel / 2, x = pixel % width + across - kernel / 2;
    if (y < 0 || y >= height || x < 0 || x >= width) return false;
    const long long image = pixel / width / height;
    at = static_cast<std::size_t>(((image * height + y) * width + x) * channels + number % channels);
    return true;
  }
  __device__ std::size_t size() const { return static_cast<std::size_t>(kernel) * kernel * channels; }
};

__global__ void im2col_kernel(std::size_t size, Window window, const float* x, float* rows) {
  for_each(size, [=](std::size_t i) {
    std::size_t at = 0;
    rows[i] = window.place(i / window.size(), i % window.size(), at) ? x[at] : 0;
  });
}

// Each number of an image becomes the sum of its entries in all windows that contain it, in a fixed order.
__global__ void col2im_kernel(std::size_t size, Window window, const float* rows, float* x) {
  for_each(size, [=](std::size_t i) {
    const auto channel = i % static_cast<std::size_t>(window.channels), pixel = i / window.channels;
    float sum = 0;
    // The window of this pixel, in reverse order, lists the pixels whose windows contain this pixel.
    const Window pixels{window.height, window.width, 1, window.kernel};
    for (std::size_t k = 0; k < pixels.size(); ++k) {
      std::size_t other = 0;
      if (!pixels.place(pixel, pixels.size() - 1 - k, other)) continue;
      sum += rows[other * window.size() + k * window.channels + channel];
    }
    x[i] = sum;
  });
}

// Finds the offset of the largest number in square i of the pooled images. If several numbers are the
// largest, the first one is used. A NaN counts as larger than every number, so that the result shows it.
struct Squares {
  int height, width, channels;

  __device__ std::size_t largest(std::size_t i, const float* x) const {
    const std::size_t channel = i % channels, pixel = i / channels;
    const std::size_t columns = width / 2, rows = height / 2;
    const std::size_t image = pixel / columns / rows, top = pixel / columns % rows * 2,
                      left = pixel % columns * 2;
    std::size_t best = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t at = ((image * height + top + k / 2) * width + left + k % 2) * channels + channel;
      if (k == 0 || x[at] > x[best] || (isnan(x[at]) && !isnan(x[best]))) best = at;
    }
    return best;
  }
};

__global__ void max_pool_kernel(std::size_t size, Squares squares, const float* x, float* out) {
  for_each(size, [=](std::size_t i) { out[i] = x[squares.largest(i, x)]; });
}

__global__ void max_pool_backward_kernel(std::size_t size, Squares squares, const float* x,
                                         const float* delta, float* x_gradient) {
  for_each(size, [=](std::size_t i) { x_gradient[squares.largest(i, x)] = delta[i]; });
}

std::size_t pooled_size(const ImageShape& shape) {
  return area(shape.batch * (shape.height / 2), shape.width / 2 * shape.channels);
}
std::size_t size_of(const ImageShape& shape) { return area(shape.pixels(), shape.channels); }
Window window_of(const ImageShape& shape, int kernel) {
  return {shape.height, shape.width, shape.channels, kernel};
}
Squares squares_of(const ImageShape& shape) { return {shape.height, shape.width, shape.channels}; }

}  // namespace

void im2col(cudaStream_t stream, const ImageShape& shape, int kernel, const float* x, float* rows) {
  const std::size_t size =
      size_of(shape) * static_cast<std::size_t>(kernel) * static_cast<std::size_t>(kernel);
  launch(grid_for(size), stream, im2col_kernel, size, window_of(shape, kernel), x, rows);
}

void col2im(cudaStream_t stream, const ImageShape& shape, int kernel, const float* rows, float* x) {
  launch(grid_for(size_of(shape)), stream, col2im_kernel, size_of(shape), window_of(shape, kernel), rows, x);
}

void max_pool(cudaStream_t stream, const ImageShape& shape, const float* x, float* out) {
  launch(grid_for(pooled_size(shape)), stream, max_pool_kernel, pooled_size(shape), squares_of(shape), x,
         out);
}

void max_pool_backward(cudaStream_t stream, const ImageShape& shape, const float* x, const float* delta,
                       float* x_gradient) {
  scale(stream, size_of(shape), 0, x_gradient, x_gradient);
  launch(grid_for(pooled_size(shape)), stream, max_pool_backward_kernel, pooled_size(shape),
         squares_of(shape), x, delta, x_gradient);
}

}  // namespace mlk::cuda
