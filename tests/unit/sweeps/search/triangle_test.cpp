#include "sweeps/search/triangle.h"

#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("sweeps/search/triangle");

using namespace mlk::sweeps;

TEST_CASE("dot() adds the products of the elements of two vectors, for each length from 0 to 9") {
  for (std::size_t count = 0; count <= 9; ++count) {
    std::vector<double> a(count), b(count, 2);
    double expected = 0;
    for (std::size_t i = 0; i < count; ++i) expected += 2 * (a[i] = static_cast<double>(i + 1));
    CHECK(dot(a.data(), b.data(), count) == expected);
  }
}

TEST_CASE("factorise() makes a Cholesky factor that solves the equations of the matrix") {
  Triangle matrix(3);  // {4, 2, 1}, {2, 5, 3}, {1, 3, 6}
  const std::vector<std::vector<double>> rows{{4}, {2, 5}, {1, 3, 6}};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j <= i; ++j) matrix.row(i)[j] = rows[i][j];
  }
  factorise(matrix);
  std::vector<double> all{4 * 1 + 2 * 2 + 1 * 3, 2 * 1 + 5 * 2 + 3 * 3, 1 * 1 + 3 * 2 + 6 * 3};
  solve_forward(matrix, all);
  solve_backward(matrix, all);
  for (std::size_t i = 0; i < 3; ++i) CHECK(all[i] == doctest::Approx(static_cast<double>(i + 1)));
  std::vector<double> first{4 * 3 + 2 * 7, 2 * 3 + 5 * 7};
  solve_forward(matrix, first);
  solve_backward(matrix, first);
  CHECK(first[0] == doctest::Approx(3));
  CHECK(first[1] == doctest::Approx(7));
}
