// The operations of warps and the copies that kernels write as PTX (kernels/cuda/tensor_cores.h and
// async_copy.h), as the PTX ISA describes them. Accesses to memory are made here, by the thread that makes
// them on a GPU, so that the sanitizers see them.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/bfloat16.h"
#include "tests/cuda/emulator/grid.h"

namespace mlk::emulator {

// cp.async. What is copied is NaN until the thread waits for it, and after that it is seen by this thread
// alone: others need a barrier.
inline void copy_async(void* to, const void* from, unsigned bytes, unsigned available, const Where& where) {
  const auto address = std::bit_cast<std::uintptr_t>(to) | std::bit_cast<std::uintptr_t>(from);
  if (bytes != 4 && bytes != 8 && bytes != 16) fail("copies neither 4 nor 8 nor 16 bytes", where);
  if (address % bytes != 0) fail("copies from or to an address that is not aligned", where);
  if (available > bytes) fail("copies more than there is place for", where);
  std::memset(to, 0xff, bytes);
  begin_copy({to, from, bytes, available}, where);
}

inline void wait_for_copies(unsigned open) {
  for (Copy copy; await_copies(open, copy);) {
    if (copy.available > 0) std::memcpy(copy.to, copy.from, copy.available);
    if (copy.available < copy.bytes)
      std::memset(static_cast<char*>(copy.to) + copy.available, 0, copy.bytes - copy.available);
  }
}

// ldmatrix.x4: four matrices of 8 x 8 numbers of 16 bits. Lane 8 * m + r brings the address of row r of
// matrix m. Each lane gets two numbers of each matrix: of row lane / 4 those of the columns 2 * (lane % 4)
// and on; transposed, rows and columns change places.
inline void load_matrices(std::uint32_t (&out)[4], const void* row, bool transposed, const Where& where) {
  const auto address = std::bit_cast<std::uint64_t>(row);
  if (address % 16 != 0) fail("loads a row of a matrix from an address that is not aligned", where);
  const std::uint32_t halves[] = {static_cast<std::uint32_t>(address),
                                  static_cast<std::uint32_t>(address >> 32)};
  const WarpNumbers rows = exchange_numbers(2, halves, where);
  const unsigned across = lane() / 4, along = lane() % 4 * 2;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    std::uint16_t pair[2];
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned at_row = transposed ? along + i : across, at_column = transposed ? across : along + i;
      const std::uint32_t* const half = rows.values + (matrix * 8 + at_row) * 2;
      const auto* const values =
          std::bit_cast<const std::uint16_t*>(half[0] | static_cast<std::uint64_t>(half[1]) << 32);
      pair[i] = values[at_column];
    }
    std::memcpy(&out[matrix], pair, sizeof pair);
  }
}

// The number of a pair: the lower half is the first.
inline float of_pair(std::uint32_t pair, unsigned which) {
  return kernels::BFloat16{static_cast<std::uint16_t>(pair >> (16 * which))}.value();
}

// mma.sync.m16n8k16: d[16][8] += a[16][16] * b[16][8], which lie spread over the lanes. The hardware adds in
// an order of its own.
inline void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                         const Where& where) {
  const std::uint32_t own[] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  const WarpNumbers all = exchange_numbers(6, own, where);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane() / 4 + i / 2 * 8, column = lane() % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const std::uint32_t* const left = all.values + (row % 8 * 4 + k % 8 / 2) * 6;
      const std::uint32_t* const right = all.values + (column * 4 + k % 8 / 2) * 6;
      d[i] += of_pair(left[row / 8 + k / 8 * 2], k % 2) * of_pair(right[4 + k / 8], k % 2);
    }
  }
}

}  // namespace mlk::emulator
