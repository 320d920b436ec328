// The cross entropy on processors.
#include <array>
#include <cmath>
#include <numeric>

#include "kernels/cpu/cpu_ops_class.h"

namespace mlk::kernels {
namespace {

constexpr int wide = 64;  // with this many classes or more, a single row fills vectors

// At most 64 blocks of rows. The losses of a block are added up together. The blocks depend on the shape
// alone, so that the number of threads does not change the bits of the sum.
class RowBlocks {
 public:
  static constexpr int most = 64;

  RowBlocks(int rows, int classes)
      : rows_(rows), height_(std::max((rows + most - 1) / most, least_numbers / classes + 1)) {}
  int count() const { return (rows_ + height_ - 1) / height_; }
  int first(int block) const { return block * height_; }
  int height(int block) const { return std::min(height_, rows_ - first(block)); }

 private:
  static constexpr int least_numbers = 1024;  // fewer numbers are not worth a call of a vector loop
  int rows_, height_;
};

// narrow_cross_entropy and wide_cross_entropy return the sum of the losses of some rows, and set `out` to
// the gradient of `share` times that sum. narrow_cross_entropy computes the exponentials of all rows at
// once, because a single row is too short for vectors.
double narrow_cross_entropy(const VectorLoops& loops, const LayerLoops&, int rows, int classes, double share,
                            const float* logits, const std::int32_t* labels, float* out) {
  const auto count = static_cast<std::size_t>(rows), width = static_cast<std::size_t>(classes);
  double losses = 0;
  for (std::size_t row = 0; row < count; ++row) {
    const float* x = logits + row * width;
    const float largest = *std::max_element(x, x + width);
    losses -= static_cast<double>(x[labels[row]]) - static_cast<double>(largest);
    for (std::size_t i = 0; i < width; ++i) out[row * width + i] = x[i] - largest;
  }
  loops.exponentials(count * width, out);
  for (std::size_t row = 0; row < count; ++row, out += width) {
    const double sum = std::accumulate(out, out + width, 0.0);
    losses += std::log(sum);
    const auto scale = static_cast<float>(share / sum);
    for (std::size_t i = 0; i < width; ++i) out[i] *= scale;
    out[labels[row]] -= static_cast<float>(share);
  }
  return losses;
}

double wide_cross_entropy(const VectorLoops& loops, const LayerLoops& layers, int rows, int classes,
                          double share, const float* logits, const std::int32_t* labels, float* out) {
  double losses = 0;
  for (int row = 0; row < rows; ++row, logits += classes, out += classes) {
    const auto at_label = static_cast<double>(logits[labels[row]]);
    float largest = 0;
    const double sum = layers.exponentials(classes, logits, out, &largest);
    losses += std::log(sum) + static_cast<double>(largest) - at_label;
    loops.scale(static_cast<std::size_t>(classes), static_cast<float>(share / sum), out, out);
    out[labels[row]] -= static_cast<float>(share);
  }
  return losses;
}

}  // namespace

// loss_of(first, rows) gives the sum of the losses of some rows.
template <typename LossOf>
double CpuOps::sum_of_losses(int rows, int classes, LossOf loss_of) {
  const RowBlocks blocks(rows, classes);
  std::array<double, RowBlocks::most> losses{};
  by_rows(blocks.count(), blocks.height(0) * classes, [&](int first, int count) {
    for (int block = first; block < first + count; ++block)
      losses[static_cast<std::size_t>(block)] = loss_of(blocks.first(block), blocks.height(block));
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

float CpuOps::softmax_cross_entropy(int rows, int classes, const float* logits, const std::int32_t* labels) {
  if (rows == 0) return 0;
  const double losses = sum_of_losses(rows, classes, [&](int first, int count) {
    double sum = 0;
    for (int row = first; row < first + count; ++row) {
      const float* x = logits + std::ptrdiff_t{row} * classes;
      sum += layers_.log_of_exponentials(classes, x) - static_cast<double>(x[labels[row]]);
    }
    return sum;
  });
  return static_cast<float>(losses / rows);
}

void CpuOps::softmax_cross_entropy_backward(int rows, int classes, const float* logits,
                                            const std::int32_t* labels, float* delta, float* loss) {
  *loss = 0;
  if (rows == 0) return;
  const double losses = sum_of_losses(rows, classes, [&](int first, int count) {
    const std::ptrdiff_t at = std::ptrdiff_t{first} * classes;
    const auto backward = classes < wide ? narrow_cross_entropy : wide_cross_entropy;
    return backward(loops_, layers_, count, classes, 1.0 / rows, logits + at, labels + first, delta + at);
  });
  *loss = static_cast<float>(losses / rows);
}

}  // namespace mlk::kernels
