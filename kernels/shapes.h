// The sizes of operations on more than a matrix.
#pragma once

namespace mlk::kernels {

// Sequences of `length` tokens, each with `heads` vectors of `head_size` numbers.
struct AttentionShape {
  int batch = 0, length = 0, heads = 0, head_size = 0;
};

// A layer that multiplies x[rows, inputs] by a weight[inputs, outputs] and adds a bias[outputs].
struct LinearLayer {
  int rows = 0, inputs = 0, outputs = 0;
  const float *x = nullptr, *weight = nullptr, *bias = nullptr;
  // Memory for Ops::kept_floats(), where the forward pass leaves what the backward pass can use. Null:
  // nothing is left.
  float* kept = nullptr;
};

// Where the backward pass of such a layer goes.
struct LinearGradients {
  float* weight = nullptr;
  float* bias = nullptr;  // null: it is not computed
  float* x = nullptr;
  // For x = GELU(sums), else null: x gets the gradient by the sums, and sums_bias[inputs] its sum over the
  // rows.
  const float* sums = nullptr;
  float* sums_bias = nullptr;
};

// Images with their channels last: x[batch, height, width, channels]. So one product convolves a whole batch,
// its result needs no other order, and the operations on rows (a bias, a ReLU) see a pixel as a row.
struct ImageShape {
  int batch = 0, height = 0, width = 0, channels = 0;

  int pixels() const { return batch * height * width; }
};

}  // namespace mlk::kernels
