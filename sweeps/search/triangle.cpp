#include "sweeps/search/triangle.h"

#include <algorithm>
#include <cmath>

namespace mlk::sweeps {

// Uses four independent sums, since each addition to a single sum would wait for the addition before it.
double dot(const double* a, const double* b, std::size_t count) {
  double sums[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    sums[0] += a[i] * b[i];
    sums[1] += a[i + 1] * b[i + 1];
    sums[2] += a[i + 2] * b[i + 2];
    sums[3] += a[i + 3] * b[i + 3];
  }
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

void factorise(Triangle& matrix) {
  constexpr double least = 1e-10;
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    double* const row = matrix.row(i);
    for (std::size_t j = 0; j < i; ++j) row[j] = (row[j] - dot(row, matrix.row(j), j)) / matrix.row(j)[j];
    row[i] = std::sqrt(std::max(row[i] - dot(row, row, i), least));
  }
}

void solve_forward(const Triangle& factor, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double* const row = factor.row(i);
    values[i] = (values[i] - dot(row, values.data(), i)) / row[i];
  }
}

void solve_backward(const Triangle& factor, std::vector<double>& values) {
  for (std::size_t i = values.size(); i-- > 0;) {
    const double* const row = factor.row(i);
    values[i] /= row[i];
    for (std::size_t j = 0; j < i; ++j) values[j] -= row[j] * values[i];
  }
}

}  // namespace mlk::sweeps
