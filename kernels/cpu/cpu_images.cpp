// The operations on images on processors. A convolution is a product: the window of each pixel (the numbers
// on which its output depends) is copied into one row of a matrix (im2col; Chellapilla et al. 2006). The
// matrix has only as many windows as the cache can hold.
#include "kernels/cpu/cpu_ops_class.h"

namespace mlk::kernels {
namespace {

// Rows of an image. The windows of all their pixels are copied together.
struct Strip {
  int image = 0, first = 0, rows = 0;
};

// The windows of the pixels of some images, row by row.
class Windows {
 public:
  Windows(const ImageShape& shape, int kernel) : shape_(shape), kernel_(kernel) {}

  int inner() const { return kernel_ * kernel_ * shape_.channels; }  // numbers of one window
  int pixels(const Strip& strip) const { return strip.rows * shape_.width; }
  std::size_t first_pixel(const Strip& strip) const { return place(strip.image, strip.first, 0); }
  // The largest number of rows in a strip.
  int strip_rows() const {
    constexpr int most_floats = 64 * 1024;
    return std::clamp(most_floats / std::max(1, shape_.width * inner()), 1, std::max(1, shape_.height));
  }
  std::size_t strip_size() const {
    return static_cast<std::size_t>(strip_rows()) * static_cast<std::size_t>(shape_.width) *
           static_cast<std::size_t>(inner());
  }

  // Calls use(strip) for each strip of images [begin, end).
  template <typename Use>
  void over_strips(int begin, int end, Use use) const {
    for (int image = begin; image < end; ++image) {
      for (int first = 0; first < shape_.height; first += strip_rows())
        use(Strip{image, first, std::min(strip_rows(), shape_.height - first)});
    }
  }

  // windows[pixels, kernel, kernel, channels] of the strip; numbers beyond the edges of the image are 0.
  void copy(const Strip& strip, const LayerLoops& loops, const float* x, float* windows) const {
    over_lines(strip, [&](const WindowLines& lines, std::size_t at, std::size_t image) {
      loops.copy_windows(lines, x + image, windows + at);
    });
  }

  // x += the windows of the strip; each number is added at the place from which copy() reads it.
  void add(const Strip& strip, const LayerLoops& loops, const float* windows, float* x) const {
    over_lines(strip, [&](const WindowLines& lines, std::size_t at, std::size_t image) {
      if (lines.size > 0) loops.add_windows(lines, windows + at, x + image);
    });
  }

 private:
  std::size_t place(int image, int y, int x) const {
    return (static_cast<std::size_t>(image) * static_cast<std::size_t>(shape_.height) +
            static_cast<std::size_t>(y)) *
               static_cast<std::size_t>(shape_.width) +
           static_cast<std::size_t>(x);
  }

  // Calls use(lines, place in the windows, place in x) for the lines of all windows. The lines of adjacent
  // pixels are passed in one call if no edge cuts them off, or if all are cut off in the same way.
  template <typename Use>
  void over_lines(const Strip& strip, Use use) const {
    const int reach = kernel_ / 2, line = kernel_ * shape_.channels;
    for (int y = strip.first; y < strip.first + strip.rows; ++y) {
      for (int row = 0; row < kernel_; ++row) {
        const int from = y - reach + row;
        const bool inside = from >= 0 && from < shape_.height;
        for (int x = 0, count = 1; x < shape_.width; x += count) {
          const int left = std::max(0, x - reach), right = std::min(shape_.width, x + reach + 1);
          const bool whole = x >= reach && x + reach < shape_.width;
          count = !inside ? shape_.width : whole ? shape_.width - 2 * reach : 1;
          const int pixel = (y - strip.first) * shape_.width + x;
          use(WindowLines{.count = count,
                          .stride = inner(),
                          .channels = shape_.channels,
                          .width = line,
                          .before = (left - (x - reach)) * shape_.channels,
                          .size = inside ? (right - left) * shape_.channels : 0},
              static_cast<std::size_t>(pixel) * static_cast<std::size_t>(inner()) +
                  static_cast<std::size_t>(row * line),
              inside ? place(strip.image, from, left) * static_cast<std::size_t>(shape_.channels) : 0);
        }
      }
    }
  }

  ImageShape shape_;
  int kernel_;
};

// How many numbers a row has before and after a pool, and how many numbers an image has before the pool.
struct PooledRows {
  explicit PooledRows(const ImageShape& shape)
      : size(std::ptrdiff_t{shape.width} * shape.channels),
        pooled(std::ptrdiff_t{shape.width / 2} * shape.channels),
        of_image(static_cast<int>(size) * shape.height) {}
  std::ptrdiff_t size, pooled;
  int of_image;
};

double products_of_convolution(const ImageShape& shape, int outputs, int inner) {
  return 2.0 * shape.pixels() * outputs * inner;
}

}  // namespace

void CpuOps::convolve(const ImageShape& shape, int outputs, int kernel, const float* x, const float* weight,
                      float* out) {
  const Windows windows(shape, kernel);
  const int inner = windows.inner();
  const double most = products_of_convolution(shape, outputs, inner) / least_operations;
  in_parts(std::min<double>(shape.batch, most), [&](int part, int parts) {
    float* copied = scratch(part, windows.strip_size());
    windows.over_strips(
        shape.batch * part / parts, shape.batch * (part + 1) / parts, [&](const Strip& strip) {
          windows.copy(strip, layers_, x, copied);
          multiply_alone(part, Transpose::no, Transpose::yes, windows.pixels(strip), outputs, inner, 1,
                         copied, inner, weight, inner, 0,
                         out + windows.first_pixel(strip) * static_cast<std::size_t>(outputs), outputs);
        });
  });
}

// Each part of the work adds up a separate gradient of the weight.
void CpuOps::convolve_backward(const ImageShape& shape, int outputs, int kernel, const float* x,
                               const float* weight, const float* delta, float* x_gradient,
                               float* weight_gradient) {
  const Windows windows(shape, kernel);
  const int inner = windows.inner();
  const std::size_t weights = static_cast<std::size_t>(outputs) * static_cast<std::size_t>(inner);
  const std::size_t image = static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width) *
                            static_cast<std::size_t>(shape.channels);
  std::fill_n(weight_gradient, weights, 0.0f);
  const double most = 2 * products_of_convolution(shape, outputs, inner) / least_operations;
  int used = 1;
  in_parts(std::min<double>(shape.batch, most), [&](int part, int parts) {
    if (part == 0) used = parts;
    const int begin = shape.batch * part / parts, end = shape.batch * (part + 1) / parts;
    float* copied = scratch(part, weights + windows.strip_size());
    float* by_weight = part == 0 ? weight_gradient : copied + windows.strip_size();
    std::fill_n(by_weight, weights, 0.0f);
    if (x_gradient)
      std::fill_n(x_gradient + static_cast<std::size_t>(begin) * image,
                  static_cast<std::size_t>(end - begin) * image, 0.0f);
    windows.over_strips(begin, end, [&](const Strip& strip) {
      const float* of_delta = delta + windows.first_pixel(strip) * static_cast<std::size_t>(outputs);
      windows.copy(strip, layers_, x, copied);
      multiply_alone(part, Transpose::yes, Transpose::no, outputs, inner, windows.pixels(strip), 1, of_delta,
                     outputs, copied, inner, 1, by_weight, inner);
      if (!x_gradient) return;
      multiply_alone(part, Transpose::no, Transpose::no, windows.pixels(strip), inner, outputs, 1, of_delta,
                     outputs, weight, inner, 0, copied, inner);
      windows.add(strip, layers_, copied, x_gradient);
    });
  });
  for (int part = 1; part < used; ++part)
    loops_.add_scaled(weights, weight_gradient, 1, scratch(part, 0) + windows.strip_size(), weight_gradient);
}

void CpuOps::max_pool(const ImageShape& shape, const float* x, float* out) {
  const PooledRows rows(shape);
  by_rows(shape.batch, rows.of_image, [&](int first, int count) {
    for (int image = first; image < first + count; ++image) {
      const float* upper = x + image * rows.size * shape.height;
      float* pooled = out + image * rows.pooled * (shape.height / 2);
      for (int y = 0; y + 1 < shape.height; y += 2, upper += 2 * rows.size, pooled += rows.pooled)
        layers_.max_pool(shape.width / 2 * 2, shape.channels, upper, upper + rows.size, pooled);
    }
  });
}

void CpuOps::max_pool_backward(const ImageShape& shape, const float* x, const float* delta,
                               float* x_gradient) {
  const PooledRows rows(shape);
  by_rows(shape.batch, rows.of_image, [&](int first, int count) {
    const std::ptrdiff_t image = rows.size * shape.height, end = (first + count) * image;
    const float* of_delta = delta + first * rows.pooled * (shape.height / 2);
    for (std::ptrdiff_t at = first * image; at < end; at += image) {
      for (int y = 0; y < shape.height; y += 2) {
        float *upper = x_gradient + at + y * rows.size, *lower = upper + rows.size;
        if (y + 1 == shape.height) {
          std::fill_n(upper, rows.size, 0.0f);
          continue;
        }
        const float* of_x = x + at + y * rows.size;
        layers_.max_pool_backward(shape.width / 2 * 2, shape.channels, of_x, of_x + rows.size, of_delta,
                                  upper, lower);
        std::fill(upper + 2 * rows.pooled, lower, 0.0f);
        std::fill(lower + 2 * rows.pooled, lower + rows.size, 0.0f);
        of_delta += rows.pooled;
      }
    }
  });
}

void CpuOps::dropout(const DropoutMask& mask, std::span<const float> x, std::span<float> out) {
  by_range(out.size(), [&](std::size_t at, std::size_t size) {
    DropoutMask from_here = mask;
    from_here.first += at;
    layers_.dropout(size, from_here, x.data() + at, out.data() + at);
  });
}

}  // namespace mlk::kernels
