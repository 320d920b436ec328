// The copies and the products of warps that kernels are built from, on the emulator.
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cuda/base/async_copy.h"
#include "kernels/cuda/base/tensor_cores.h"
#include "tests/unit/cuda/faults.h"
#include "tests/unit/kernels/numbers.h"

TEST_SUITE_BEGIN("cuda/tensor_language");

using namespace mlk::cuda;
using mlk::emulator::KernelFault;
using mlk::emulator::run_grid;
using mlk::kernels::to_bfloat16;
using mlk::test::contains;
using mlk::test::fault_of;
using mlk::test::Numbers;

namespace {

const mlk::emulator::Launch one_warp{{1}, {32}, 1024};

std::vector<BFloat16> to_numbers(const std::vector<float>& values) {
  std::vector<BFloat16> numbers;
  for (const float value : values) numbers.push_back(to_bfloat16(value));
  return numbers;
}

}  // namespace

TEST_CASE("copy_async() shows its bytes after the wait, and fills up with zeros if the source is too short") {
  alignas(16) static const float in[32] = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> before(4), after(4);
  run_grid({{1}, {1}, 16}, [&] {
    auto* const shared = shared_memory<float>();
    copy_async<16>(shared, in + 4, 12);
    end_copies();
    for (int i = 0; i < 4; ++i) before[i] = shared[i];
    wait_for_copies<0>();
    for (int i = 0; i < 4; ++i) after[i] = shared[i];
  });
  for (const float value : before) CHECK(std::isnan(value));
  CHECK(after == std::vector<float>{5, 6, 7, 0});
}

TEST_CASE("wait_for_copies<1>() leaves the last group of copies in progress") {
  static const float in[2] = {1, 2};
  std::vector<float> got(2);
  run_grid({{1}, {1}, 8}, [&] {
    auto* const shared = shared_memory<float>();
    copy_async<4>(shared, in);
    end_copies();
    copy_async<4>(shared + 1, in + 1);
    end_copies();
    wait_for_copies<1>();
    for (int i = 0; i < 2; ++i) got[i] = shared[i];
  });
  CHECK(got[0] == 1);
  CHECK(std::isnan(got[1]));
}

TEST_CASE("wait_for_copies() does not wait for a copy that was not put into a group") {
  static const float in[1] = {1};
  float got = 0;
  run_grid({{1}, {1}, 4}, [&] {
    auto* const shared = shared_memory<float>();
    copy_async<4>(shared, in);
    wait_for_copies<0>();
    got = *shared;
  });
  CHECK(std::isnan(got));
}

TEST_CASE("the emulator reports a fault for copies that are too large, too many or not aligned") {
  alignas(16) static const float in[8] = {};
  CHECK(contains(fault_of(one_warp, [] { copy_async<8>(shared_memory<float>(), in + 1); }), "not aligned"));
  CHECK(contains(fault_of(one_warp, [] { copy_async<16>(shared_memory<float>() + 2, in); }), "not aligned"));
  CHECK(contains(fault_of(one_warp, [] { copy_async<4>(shared_memory<float>(), in, 8); }),
                 "more than there is place"));
  CHECK(contains(fault_of(one_warp,
                          [] {
                            for (int i = 0; i < 1000; ++i) copy_async<4>(shared_memory<float>(), in);
                          }),
                 "too many"));
  CHECK_THROWS_AS(run_grid({{1}, {1}, 100 * 1024}, [] {}), KernelFault);
}

TEST_CASE(
    "a warp computes the same products of matrices in shared memory as plain loops, transposed or not") {
  Numbers numbers;
  const auto a = to_numbers(numbers(16 * 32)), b = to_numbers(numbers(32 * 16));
  for (const bool transposed : {false, true}) {
    CAPTURE(transposed);
    std::vector<float> product(16 * 16);
    run_grid({{1}, {32}, 2 * 32 * 32 * 2}, [&] {
      const Tile<32> left{shared_memory<BFloat16>()}, right{left.numbers + 32 * 32};
      for (unsigned i = threadIdx.x; i < 16 * 32;
           i += 32) {  // number by number: (row, inner) and (inner, column)
        const unsigned row = i / 32, inner = i % 32;
        const auto put = [](const Tile<32>& tile, unsigned y, unsigned x, BFloat16 value) {
          tile.at(y, x - x % 8)[x % 8] = value;
        };
        transposed ? put(left, inner, row, a[i]) : put(left, row, inner, a[i]);
        transposed ? put(right, row, inner, b[inner * 16 + row])
                   : put(right, inner, row, b[inner * 16 + row]);
      }
      __syncthreads();
      Sums sums[2] = {};
      for (unsigned inner = 0; inner < 32; inner += 16) {
        Left of_a;
        Right of_b[2];
        if (transposed) {
          left.load<true>(of_a, 0, inner);
          right.load<true>(of_b[0], of_b[1], inner, 0);
        } else {
          left.load(of_a, 0, inner);
          right.load(of_b[0], of_b[1], inner, 0);
        }
        for (int i = 0; i < 2; ++i) multiply_add(sums[i], of_a, of_b[i]);
      }
      const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4 * 2;
      for (unsigned i = 0; i < 8; ++i)
        product[(g + i % 4 / 2 * 8) * 16 + i / 4 * 8 + t + i % 2] = sums[i / 4][i % 4];
    });
    for (std::size_t i = 0; i < product.size(); ++i) {
      double expected = 0;
      for (std::size_t k = 0; k < 32; ++k)
        expected +=
            static_cast<double>(a[i / 16 * 32 + k].value()) * static_cast<double>(b[k * 16 + i % 16].value());
      CHECK(static_cast<double>(product[i]) == doctest::Approx(expected).epsilon(1e-5));
    }
  }
}

// The layouts of CuTe (CUTLASS) for this instruction, SM80_16x8x16_F32BF16BF16F32_TN, as strides in
// column-major matrices: a and b by number 2 * register + half, and d by register.
TEST_CASE("multiply_add() gives each lane the numbers that the layout of the hardware assigns to this lane") {
  Numbers numbers;
  const auto a = to_numbers(numbers(16 * 16)), b = to_numbers(numbers(8 * 16));
  std::vector<float> d(16 * 8);
  run_grid({{1}, {32}}, [&] {
    const unsigned across = threadIdx.x % 4, along = threadIdx.x / 4;
    const auto of_a = [&](unsigned v) {
      return across * 32 + along + v % 2 * 16 + v / 2 % 2 * 8 + v / 4 * 128;
    };
    const auto of_b = [&](unsigned v) { return across * 16 + along + v % 2 * 8 + v / 2 * 64; };
    const auto of_d = [&](unsigned v) { return across * 32 + along + v % 2 * 16 + v / 2 * 8; };
    Left left;
    Right right;
    Sums sums = {};
    for (unsigned i = 0; i < 4; ++i) left[i] = pair_of(a[of_a(2 * i)].value(), a[of_a(2 * i + 1)].value());
    for (unsigned i = 0; i < 2; ++i) right[i] = pair_of(b[of_b(2 * i)].value(), b[of_b(2 * i + 1)].value());
    multiply_add(sums, left, right);
    for (unsigned i = 0; i < 4; ++i) d[of_d(i)] = sums[i];
  });
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      double expected = 0;
      for (std::size_t k = 0; k < 16; ++k)
        expected +=
            static_cast<double>(a[row + 16 * k].value()) * static_cast<double>(b[column + 8 * k].value());
      CHECK(static_cast<double>(d[row + 16 * column]) == doctest::Approx(expected).epsilon(1e-5));
    }
  }
}

TEST_CASE("to_left() rounds sums to bfloat16 and turns them into the left factor of a product") {
  std::vector<float> twice(16 * 8);
  run_grid({{1}, {32}}, [&] {
    const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4 * 2;
    Sums sums[2];  // number (row, column) is row + column / 16
    for (unsigned i = 0; i < 8; ++i)
      sums[i / 4][i % 4] =
          static_cast<float>(g + i % 4 / 2 * 8) + static_cast<float>(i / 4 * 8 + t + i % 2) / 16;
    Left left;
    to_left(left, sums[0], sums[1]);
    // b[k][n] is 2 where k = n + 3.
    const auto of_b = [&](unsigned k) { return k == g + 3 ? 2.0f : 0.0f; };
    const Right right = {pair_of(of_b(t), of_b(t + 1)), pair_of(of_b(t + 8), of_b(t + 9))};
    Sums product = {};
    multiply_add(product, left, right);
    for (unsigned i = 0; i < 4; ++i) twice[(g + i / 2 * 8) * 8 + t + i % 2] = product[i];
  });
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned n = 0; n < 8; ++n)
      CHECK(twice[row * 8 + n] ==
            2 * to_bfloat16(static_cast<float>(row) + static_cast<float>(n + 3) / 16).value());
  }
}

TEST_CASE("the emulator reports a fault if some lanes of a warp do not take part in a product") {
  CHECK(contains(fault_of(one_warp,
                          [] {
                            Sums sums = {};
                            if (threadIdx.x < 16) multiply_add(sums, {}, {});
                          }),
                 "all threads wait"));
}
