// The two engines that attention_tiles.h describes. The same kernels use both engines.
#pragma once

#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/cuda/base/tensor_cores.h"

namespace mlk::cuda {

// 1 / sqrt(size).
template <unsigned size>
constexpr float score_scale = size == 64 ? 0.125f : 0.08838834764831845f;

// Multiplies rounded vectors with tensor cores. Scores are rounded in their registers and become a factor of
// the next product. Four lanes share a row. A warp has `groups` groups of 16 rows, and loads each number of a
// tile once for all groups. The registers of a lane have to hold the sums of all groups.
template <unsigned head_size, unsigned groups, unsigned positions>
struct TensorCores {
  using Number = BFloat16;
  using Tile = cuda::Tile<head_size>;
  static constexpr unsigned size = head_size, step = positions, warps = 4, rows = 16 * groups;
  static constexpr unsigned rows_of_lane = 2 * groups, lanes_of_row = 4;
  static constexpr unsigned scratch = 0;

  struct Scores {
    Sums sums[groups][step / 8];

    // Calls work(row of the lane, row, column, number) for each number of this lane.
    template <typename Work>
    __device__ void each(Work work) {
      const unsigned column = threadIdx.x % 4 * 2;
#pragma unroll
      for (unsigned group = 0; group < groups; ++group) {
#pragma unroll
        for (unsigned i = 0; i < step / 2; ++i) {
          const unsigned row = group * 2 + i % 4 / 2;
          work(row, row_of(row), i / 4 * 8 + column + i % 2, sums[group][i / 4][i % 4]);
        }
      }
    }

    // Calls work(row of the lane, column, number, number of `other`) for each number of this lane.
    template <typename Work>
    __device__ void join(const Scores& other, Work work) {
      const unsigned column = threadIdx.x % 4 * 2;
#pragma unroll
      for (unsigned group = 0; group < groups; ++group) {
#pragma unroll
        for (unsigned i = 0; i < step / 2; ++i)
          work(group * 2 + i % 4 / 2, i / 4 * 8 + column + i % 2, sums[group][i / 4][i % 4],
               other.sums[group][i / 4][i % 4]);
      }
    }

    // Multiplies the rows of `left`, from `row` on, by the vectors of `right`, and stores the products as
    // scores. Each vector gives a column.
    __device__ void multiply(const Tile& left, unsigned row, const Tile& right) {
      each([](unsigned, unsigned, unsigned, float& sum) { sum = 0; });
#pragma unroll 2  // a completely unrolled loop would need too many registers for addresses
      for (unsigned k = 0; k < size; k += 16) {
        Left a[groups];
#pragma unroll
        for (unsigned group = 0; group < groups; ++group) left.load(a[group], row + group * 16, k);
#pragma unroll
        for (unsigned j = 0; j < step / 8; j += 2) {
          Right b[2];
          right.template load<true>(b[0], b[1], k, j * 8);
#pragma unroll
          for (unsigned group = 0; group < groups; ++group) {
            multiply_add(sums[group][j], a[group], b[0]);
            multiply_add(sums[group][j + 1], a[group], b[1]);
          }
        }
      }
    }
  };

  struct Means {
    Sums sums[groups][size / 8] = {};

    __device__ void scale(unsigned row, float factor) {
#pragma unroll
      for (Sums& of : sums[row / 2]) of[row % 2 * 2] *= factor, of[row % 2 * 2 + 1] *= factor;
    }
    // sums += weights times the vectors of `right`.
    __device__ void add(const Scores& weights, const Tile& right, float*) {
#pragma unroll
      for (unsigned k = 0; k < step; k += 16) {
        Left a[groups];
#pragma unroll
        for (unsigned group = 0; group < groups; ++group)
          to_left(a[group], weights.sums[group][k / 8], weights.sums[group][k / 8 + 1]);
#pragma unroll
        for (unsigned j = 0; j < size / 8; j += 2) {
          Right b[2];
          right.load(b[0], b[1], k, j * 8);
#pragma unroll
          for (unsigned group = 0; group < groups; ++group) {
            multiply_add(sums[group][j], a[group], b[0]);
            multiply_add(sums[group][j + 1], a[group], b[1]);
          }
        }
      }
    }
    // Writes the vectors to the positions from `first` on.
    __device__ void put(const HeadVectors<float>& to, unsigned first) const {
#pragma unroll
      for (unsigned row = 0; row < rows_of_lane; ++row) {
        if (first + row_of(row) >= to.length) continue;
        float* const out = to.at(first + row_of(row)) + threadIdx.x % 4 * 2;
#pragma unroll
        for (unsigned j = 0; j < size / 8; ++j) {
          const Sums& of = sums[row / 2][j];
          *reinterpret_cast<float2*>(out + j * 8) = {of[row % 2 * 2], of[row % 2 * 2 + 1]};
        }
      }
    }
  };

  __device__ static unsigned row_of(unsigned row_of_lane) {
    return threadIdx.x % warp_threads / 4 + row_of_lane * 8;
  }
};

// A matrix of floats in shared memory. The padding of 4 numbers between the rows puts 8 rows of one column
// into different banks.
template <unsigned columns>
struct FloatTile {
  static constexpr unsigned stride = columns + 4;
  float* numbers;

  __device__ float* at(unsigned row, unsigned column) const { return numbers + row * stride + column; }
  __device__ float4 four(unsigned row, unsigned column) const {
    return *reinterpret_cast<const float4*>(at(row, column));
  }
};

// Multiplies unrounded vectors with the units for float32. Scores go through shared memory on their way to
// the next product. 16 lanes share a row.
template <unsigned head_size, unsigned positions>
struct Floats {
  using Number = float;
  using Tile = FloatTile<head_size>;
  static constexpr unsigned size = head_size, step = positions, rows = 16, rows_of_lane = 8,
                            lanes_of_row = 16;
  static constexpr unsigned warps = size == 64 ? 4 : 2;  // as many as fit into 99 KB of shared memory
  static constexpr unsigned scratch = rows * FloatTile<step>::stride;

  struct Scores {
    float sums[rows_of_lane][step / 16];

    template <typename Work>
    __device__ void each(Work work) {
#pragma unroll
      for (unsigned i = 0; i < rows_of_lane; ++i) {
#pragma unroll
        for (unsigned j = 0; j < step / 16; ++j) work(i, row_of(i), threadIdx.x % 16 + j * 16, sums[i][j]);
      }
    }

    template <typename Work>
    __device__ void join(const Scores& other, Work work) {
#pragma unroll
      for (unsigned i = 0; i < rows_of_lane; ++i) {
#pragma unroll
        for (unsigned j = 0; j < step / 16; ++j)
          work(i, threadIdx.x % 16 + j * 16, sums[i][j], other.sums[i][j]);
      }
    }

    __device__ void multiply(const Tile& left, unsigned row, const Tile& right) {
      each([](unsigned, unsigned, unsigned, float& sum) { sum = 0; });
#pragma unroll 2
      for (unsigned k = 0; k < size; k += 4) {
        float4 b[step / 16];
#pragma unroll
        for (unsigned j = 0; j < step / 16; ++j) b[j] = right.four(threadIdx.x % 16 + j * 16, k);
#pragma unroll
        for (unsigned i = 0; i < rows_of_lane; ++i) {
          const float4 a = left.four(row + row_of(i), k);
#pragma unroll
          for (unsigned j = 0; j < step / 16; ++j) {
            float& sum = sums[i][j];
            sum = fmaf(a.w, b[j].w, fmaf(a.z, b[j].z, fmaf(a.y, b[j].y, fmaf(a.x, b[j].x, sum))));
          }
        }
      }
    }
  };

  struct Means {
    float sums[rows_of_lane][size / 16] = {};

    __device__ void scale(unsigned row_of_lane, float factor) {
#pragma unroll
      for (float& sum : sums[row_of_lane]) sum *= factor;
    }
    __device__ void add(Scores& weights, const Tile& right, float* scratch) {
      const FloatTile<step> left{scratch};
      weights.each(
          [&](unsigned, unsigned row, unsigned column, float& weight) { *left.at(row, column) = weight; });
      __syncwarp();
#pragma unroll 1
      for (unsigned k = 0; k < step; k += 4) {
        float4 a[rows_of_lane];
#pragma unroll
        for (unsigned i = 0; i < rows_of_lane; ++i) a[i] = left.four(row_of(i), k);
#pragma unroll
        for (unsigned inner = 0; inner < 4; ++inner) {
#pragma unroll
          for (unsigned j = 0; j < size / 64; ++j) {
            const float4 b = right.four(k + inner, j * 64 + threadIdx.x % 16 * 4);
#pragma unroll
            for (unsigned i = 0; i < rows_of_lane; ++i) {
              const float weight = inner == 0 ? a[i].x : inner == 1 ? a[i].y : inner == 2 ? a[i].z : a[i].w;
              float* const sum = sums[i] + j * 4;
              sum[0] = fmaf(weight, b.x, sum[0]);
              sum[1] = fmaf(weight, b.y, sum[1]);
              sum[2] = fmaf(weight, b.z, sum[2]);
              sum[3] = fmaf(weight, b.w, sum[3]);
            }
          }
        }
      }
      __syncwarp();  // before the next weights overwrite these
    }
    __device__ void put(const HeadVectors<float>& to, unsigned first) const {
#pragma unroll
      for (unsigned i = 0; i < rows_of_lane; ++i) {
        if (first + row_of(i) >= to.length) continue;
        float* const out = to.at(first + row_of(i)) + threadIdx.x % 16 * 4;
#pragma unroll
        for (unsigned j = 0; j < size / 64; ++j) {
          const float* const sum = sums[i] + j * 4;
          *reinterpret_cast<float4*>(out + j * 64) = {sum[0], sum[1], sum[2], sum[3]};
        }
      }
    }
  };

  __device__ static unsigned row_of(unsigned row_of_lane) {
    return threadIdx.x % warp_threads / 16 * 8 + row_of_lane;
  }
};

// Reduces over the lanes that share a row.
template <typename Engine, typename Operation>
__device__ float reduce_row(float value, Operation operation) {
#pragma unroll
  for (unsigned lanes = Engine::lanes_of_row / 2; lanes > 0; lanes /= 2)
    value = operation(value, __shfl_xor_sync(all_lanes, value, static_cast<int>(lanes)));
  return value;
}

}  // namespace mlk::cuda
