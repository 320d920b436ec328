// Offsets of elements in matrices.
#pragma once

#include <cstddef>

namespace mlk::kernels {

// The offset of an element in a dense matrix whose rows have `columns` numbers.
inline std::size_t index(int row, int columns, int column) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column);
}

}  // namespace mlk::kernels
