// Symmetric, positive definite matrices, for Gaussian processes. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace mlk::sweeps {

// The lower triangle of a symmetric matrix, one row after the other.
class Triangle {
 public:
  explicit Triangle(std::size_t size) : size_(size), cells_(size * (size + 1) / 2) {}
  std::size_t size() const { return size_; }
  double* row(std::size_t i) { return cells_.data() + i * (i + 1) / 2; }
  const double* row(std::size_t i) const { return cells_.data() + i * (i + 1) / 2; }

 private:
  std::size_t size_;
  std::vector<double> cells_;
};

// The dot product. The order of the additions depends only on `count`, so every build gives the same bits.
double dot(const double* a, const double* b, std::size_t count);

// Computes Cholesky's factor in place. A pivot below 1e-10, which rounding can cause, becomes 1e-10.
void factorise(Triangle& matrix);

// Solves factor * x = values for the first values.size() rows, in place.
void solve_forward(const Triangle& factor, std::vector<double>& values);
// Solves the same rows of (the transpose of factor) * x = values, in place.
void solve_backward(const Triangle& factor, std::vector<double>& values);

}  // namespace mlk::sweeps
