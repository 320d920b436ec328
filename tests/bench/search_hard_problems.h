// Functions that are hard for a search: narrow valleys, plateaus, noise, parameters without effect, words
// with optima of their own, trials that fail. They were chosen before any search was tried on them. search.py
// has the same ones.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "tests/bench/search_problems.h"

namespace mlk::bench {

// A valley that bends in four dimensions; across it the function grows a hundred times as fast as along it.
inline double valley4(const Point& point) {
  const std::vector<double> x = coordinates(point);
  return 100 * (square(x[1] - x[0] * x[0]) + square(x[2] - x[0] * x[1]) + square(x[3] - 0.5 * x[0])) +
         square(1 - x[0]);
}

// An ellipsoid whose axes are not those of the space; the longest is 32 times the shortest.
inline double ellipsoid6(const Point& point) {
  std::vector<double> x = coordinates(point);
  double along = 0;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] -= 0.3 + 0.08 * static_cast<double>(i);
  for (const double each : x) along += each / static_cast<double>(x.size());
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i)  // Householder's reflection at the diagonal
    sum += std::pow(10, 3 * static_cast<double>(i) / static_cast<double>(x.size() - 1)) *
           square(x[i] - 2 * along);
  return sum;
}

// Steps, on which only a slight slope shows the way.
inline double plateau3(const Point& point) {
  constexpr std::array<double, 3> center{0.23, 0.61, 0.83};
  const std::vector<double> x = coordinates(point);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double distance = std::fabs(x[i] - center[i]);
    sum += std::floor(8 * distance) + 0.01 * distance;
  }
  return sum;
}

inline double bowl4(const Point& point) {
  constexpr std::array<double, 4> center{0.2, 0.7, 0.4, 0.9};
  const std::vector<double> x = coordinates(point);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += square(x[i] - center[i]);
  return sum;
}

// Two of ten parameters matter.
inline double active10(const Point& point) {
  return branin({{"x0", 15 * at(point, "x3") - 5}, {"x1", 15 * at(point, "x7")}});
}

// The word that is best by far has the narrowest optimum; the one that is best on average is wrong.
inline double optima(const Point& point) {
  const std::string kind = word(point, "kind");
  const double x = at(point, "x"), y = at(point, "y");
  if (kind == "broad") return 0.3 + 0.3 * (square(x - 0.8) + square(y - 0.2));
  if (kind == "wavy") return 0.5 + 0.2 * std::sin(9 * x) * std::cos(9 * y);
  if (kind == "steep") return 1.5 * std::sqrt(square(x - 0.25) + square(y - 0.7));
  return 0.6 + std::fabs(x - y);
}

inline double ackley4(const Point& point) {
  const std::vector<double> x = coordinates(point);
  double squares = 0, waves = 0;
  for (const double each : x) {
    squares += square(each - 3) / static_cast<double>(x.size());
    waves += std::cos(2 * std::numbers::pi * (each - 3)) / static_cast<double>(x.size());
  }
  return 20 + std::numbers::e - 20 * std::exp(-0.2 * std::sqrt(squares)) - std::exp(waves);
}

inline double rastrigin2(const Point& point) {
  double sum = 0;
  for (const double each : coordinates(point))
    sum += 10 + square(each - 1) - 10 * std::cos(2 * std::numbers::pi * (each - 1));
  return sum;
}

// A training that diverges when it learns too fast, and is best just below that.
inline double cliff(const Point& point) {
  const double rate = std::log10(at(point, "lr")), momentum = at(point, "momentum");
  const double speed = rate - std::log10(1 - momentum);
  if (speed > -0.5) return std::numeric_limits<double>::quiet_NaN();
  return 0.2 * (-0.5 - speed) + 0.5 * square(momentum - 0.9) +
         0.05 * square(std::log10(at(point, "decay")) + 3) + 0.3 * square((at(point, "warmup") - 300) / 500);
}

// Whole numbers that depend on each other.
inline double integers5(const Point& point) {
  constexpr std::array<double, 5> center{4, 17, 9, 12, 2};
  double sum = 0, before = center[0];
  for (std::size_t i = 0; i < center.size(); ++i) {
    const double n = at(point, "n" + std::to_string(i));
    sum += 0.05 * square(n - center[i] - 0.5 * (before - (i == 0 ? center[0] : center[i - 1])));
    before = n;
  }
  return sum;
}

inline std::vector<Problem> hard_problems() {
  using Kind = Parameter::Kind;
  sweeps::Space whole;
  for (int i = 0; i < 5; ++i)
    whole.parameters.push_back(number("n" + std::to_string(i), Kind::integer, 0, 20));
  const sweeps::Space kinds{{choice("kind", {"flat", "broad", "steep", "wavy"}),
                             number("x", Kind::uniform, 0, 1), number("y", Kind::uniform, 0, 1)},
                            {}};
  const sweeps::Space training{
      {number("lr", Kind::log_uniform, 1e-5, 10), number("momentum", Kind::uniform, 0, 0.99),
       number("decay", Kind::log_uniform, 1e-6, 1), number("warmup", Kind::integer, 0, 1000)},
      {}};
  return {{"valley4", cube(4, -1.5, 1.5), 0, valley4},
          {"ellipsoid6", cube(6, 0, 1), 0, ellipsoid6},
          {"plateau3", cube(3, 0, 1), 0, plateau3},
          {"noisy_bowl4", cube(4, 0, 1), 0, bowl4, 0.2},
          {"noisy_mixed", mixed_space(), 0, mixed, 0.3},
          {"active10", cube(10, 0, 1), 0.39788735772973816, active10},
          {"optima", kinds, 0, optima},
          {"ackley4", cube(4, -5, 10), 0, ackley4},
          {"rastrigin2", cube(2, -4, 5), 0, rastrigin2},
          {"cliff", training, 0, cliff},
          {"integers5", whole, 0, integers5}};
}

}  // namespace mlk::bench
