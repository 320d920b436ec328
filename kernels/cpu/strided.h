// Matrices as the products read them.
#pragma once

#include <cstddef>

#include "kernels/ops.h"

namespace mlk::kernels {

// Element (i, j) is at i * row + j * column, and one of the two strides is 1.
struct Strided {
  const float* data;
  std::ptrdiff_t row, column;
  Strided from(std::ptrdiff_t i, std::ptrdiff_t j) const {
    return {data + i * row + j * column, row, column};
  }
};

// op(matrix). leading: how many numbers lie between the starts of two adjacent stored rows.
inline Strided stored(Transpose transpose, const float* data, int leading) {
  return transpose == Transpose::yes ? Strided{data, 1, leading} : Strided{data, leading, 1};
}

// The depth of the blocks into which k is cut, at most `most`. The depth is a multiple of eight, which suits
// the vectors, and the blocks are as equal as such depths allow.
inline int depth_of_blocks(int k, int most) {
  const int blocks = (k + most - 1) / most;
  return ((k + blocks - 1) / blocks + 7) / 8 * 8;
}

}  // namespace mlk::kernels
