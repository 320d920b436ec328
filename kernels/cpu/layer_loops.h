// The loops of transformers and of images, each compiled for several instruction sets and chosen at run time.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/dropout.h"

namespace mlk::kernels {

// A line is one row of a window (see Ops::convolve). These are the lines of the windows of `count` adjacent
// pixels, one line of each window. In the windows, a line has `width` numbers, and the next line begins
// `stride` numbers further on. The numbers [before, before + size) of a line belong to the image; the other
// numbers of the line are beyond the edges of the image. In the image, the lines overlap, because the next
// line begins only `channels` numbers further on.
struct WindowLines {
  int count = 0;
  std::ptrdiff_t stride = 0, channels = 0, width = 0, before = 0, size = 0;
};

// The results have the same bits for every instruction set, because sums are always added up in sixteen
// lanes.
struct LayerLoops {
  const char* name;  // the instruction set

  // The next three functions have the contracts of the functions of Ops (ops.h) with the same names.
  void (*add_bias_gelu)(int rows, int columns, const float* bias, float* x, float* out);
  void (*layer_norm)(int rows, int columns, const float* x, const float* weight, const float* bias,
                     float* out, float* mean, float* scale);
  void (*dropout)(std::size_t size, const DropoutMask& mask, const float* x, float* out);

  // delta[i] *= the derivative of GELU at x[i].
  void (*gelu_backward)(std::size_t size, const float* x, float* delta);

  // The part of Ops::layer_norm_backward that adds to x_gradient.
  void (*layer_norm_backward)(int rows, int columns, const float* x, const float* weight, const float* mean,
                              const float* scale, const float* delta, float* x_gradient);
  // The part of Ops::layer_norm_backward that computes the gradients of weight and bias, for `width` of the
  // columns. x, delta and the gradients begin at the first of these columns.
  void (*layer_norm_gradients)(int rows, int columns, int width, const float* x, const float* mean,
                               const float* scale, const float* delta, float* weight_gradient,
                               float* bias_gradient);

  // Computes the weights of one query. Replaces the scores of the first `seen` positions by the weights
  // e^(scale * (score - largest)), and the other scores, up to `size`, by 0. Returns the sum of the weights,
  // and sets `largest` to the largest score.
  float (*attention_weights)(int seen, int size, float scale, float* scores, float* largest);
  // The backward pass of attention_weights. Replaces the scores by the weights e^(scale * score - log_sum).
  // by_weights has the gradient by each weight before the call, and the gradient by each score after it. From
  // `seen` up to `size`, both arrays become 0. mean: the sum of weight * (gradient by this weight) over the
  // positions.
  void (*attention_weights_backward)(int seen, int size, float scale, float log_sum, float mean,
                                     float* scores, float* by_weights);

  // out[i] = e^(x[i] - the largest x), where out may be x. Returns the sum of `out`, and sets `largest`.
  double (*exponentials)(int size, const float* x, float* out, float* largest);
  // The logarithm of the sum of e^x[i]. The sum itself may be beyond the largest float.
  double (*log_of_exponentials)(int size, const float* x);

  float (*dot)(int size, const float* a, const float* b);
  double (*sum_of_squares)(std::size_t size, const float* x);

  // Pools two rows of `width` pixels (an even number) into one row; see Ops::max_pool.
  void (*max_pool)(int width, int channels, const float* upper, const float* lower, float* out);
  void (*max_pool_backward)(int width, int channels, const float* upper, const float* lower,
                            const float* delta, float* upper_gradient, float* lower_gradient);

  // `image` and `windows` point to the first number of the lines in the image and in the windows.
  // In the windows, copy_windows sets the numbers beyond the edges to 0. add_windows adds the other numbers
  // to the image.
  void (*copy_windows)(const WindowLines& lines, const float* image, float* windows);
  void (*add_windows)(const WindowLines& lines, const float* windows, float* image);
};

// The loops that this processor can run, the fastest first; never empty.
std::span<const LayerLoops> layer_loops();

}  // namespace mlk::kernels
