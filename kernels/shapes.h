// The operands of attention, of linear layers and of operations on images, with their sizes.
#pragma once

#include "kernels/bfloat16.h"

namespace mlk::kernels {

enum class Transpose { no, yes };

// Sequences of `length` tokens, each with `heads` vectors of `head_size` numbers.
struct AttentionShape {
  int batch = 0, length = 0, heads = 0, head_size = 0;
};

// A layer that multiplies x[rows, inputs] by a weight[inputs, outputs] and adds a bias[outputs].
struct LinearLayer {
  int rows = 0, inputs = 0, outputs = 0;
  const float *x = nullptr, *weight = nullptr;
  const float* bias = nullptr;        // null: there is none
  Transpose stored = Transpose::no;   // yes: weight[outputs, inputs]
  const BFloat16* rounded = nullptr;  // the weight as Ops::round() writes it; null: there is no such copy
  // Memory for Ops::kept_size() numbers that the forward pass stores for the backward pass. Null: nothing is
  // stored.
  BFloat16* kept = nullptr;
};

// Where the backward pass of a LinearLayer writes its results.
struct LinearGradients {
  float* weight = nullptr;
  float* bias = nullptr;  // null: it is not computed
  float* x = nullptr;
  // Not null if the input of the layer is GELU(sums). Then `x` gets the gradient by `sums`, and
  // sums_bias[inputs] gets the sum of that gradient over the rows.
  const float* sums = nullptr;
  float* sums_bias = nullptr;
  float factor = 1;   // scales the results in `weight` and `x`
  bool adds = false;  // true: adds to the numbers in `weight`; false: overwrites them
};

// Images with their channels last: x[batch, height, width, channels]. So one product convolves a whole batch,
// its result is already in this order, and the operations on rows (a bias, a ReLU) see a pixel as a row.
struct ImageShape {
  int batch = 0, height = 0, width = 0, channels = 0;

  int pixels() const { return batch * height * width; }
};

}  // namespace mlk::kernels
