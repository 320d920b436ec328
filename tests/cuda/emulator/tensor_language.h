// The operations of warps and the copies that kernels write as PTX (kernels/cuda/base/tensor_cores.h and
// async_copy.h), as the PTX ISA describes them. These functions access memory in the thread that accesses it
// on a GPU, so that the sanitizers see the accesses. The product of two matrices (mma.sync) accesses no
// memory, and is in grid.h.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "tests/cuda/emulator/grid.h"

namespace mlk::emulator {

// cp.async. The destination is NaN until the thread waits for the copy. After the wait only this thread sees
// the copied bytes; other threads need a barrier.
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

// ldmatrix.x4: four matrices of 8 x 8 numbers of 16 bits. Lane 8 * m + r passes the address of row r of
// matrix m. Each lane gets two numbers of each matrix: in row lane / 4 the numbers of two columns, 2 * (lane
// % 4) and the next one. If `transposed`, rows and columns are exchanged.
inline void load_matrices(std::uint32_t (&out)[4], const void* row, bool transposed, const Where& where) {
  const auto address = std::bit_cast<std::uint64_t>(row);
  if (address % 16 != 0) fail("loads a row of a matrix from an address that is not aligned", where);
  const Lanes rows = values_of_lanes(0xffffffff, address, where);
  const unsigned across = lane() / 4, along = lane() % 4 * 2;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    std::uint16_t pair[2];
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned at_row = transposed ? along + i : across, at_column = transposed ? across : along + i;
      pair[i] = std::bit_cast<const std::uint16_t*>(rows.values[matrix * 8 + at_row])[at_column];
    }
    std::memcpy(&out[matrix], pair, sizeof pair);
  }
}

}  // namespace mlk::emulator
