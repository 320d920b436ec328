// Numbers for tests of kernels: in [-1, 1), the same in every run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace mlk::test {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

class Numbers {
 public:
  std::vector<float> operator()(std::size_t size) {
    std::vector<float> values(size);
    for (float& value : values) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      value = static_cast<float>(static_cast<std::int32_t>(state_ >> 32)) * 0x1p-31f;
    }
    return values;
  }
  std::vector<std::int32_t> labels(int size, int classes) {
    std::vector<std::int32_t> values;
    for (float x : (*this)(static_cast<std::size_t>(size))) {
      values.push_back(std::min(static_cast<int>((x + 1) / 2 * static_cast<float>(classes)), classes - 1));
    }
    return values;
  }

 private:
  std::uint64_t state_ = 42;
};

// The largest difference of two vectors of the same length; infinite if one of them has a NaN.
inline double furthest_apart(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    worst = std::isnan(apart) ? HUGE_VAL : std::max(worst, apart);
  }
  return worst;
}

inline std::size_t area(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

}  // namespace mlk::test
