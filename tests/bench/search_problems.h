// The functions that the searches are compared on. search.py has the same ones, and checks that they agree.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "sweeps/space/space.h"

namespace mlk::bench {

using sweeps::Parameter;
using sweeps::Point;

struct Problem {
  std::string name;
  sweeps::Space space;
  double best;                                // the smallest value
  std::function<double(const Point&)> value;  // NaN: the trial fails
  double noise = 0;                           // its deviation: a search sees the value with it
};

inline Parameter number(const std::string& path, Parameter::Kind kind, double low, double high,
                        const std::vector<sweeps::Condition>& when = {}) {
  return {path, kind, {}, low, high, when};
}

inline Parameter choice(const std::string& path, const std::vector<nlohmann::json>& values) {
  return {path, Parameter::Kind::choice, values, 0, 0, {}};
}

// x0, x1 ... from low to high.
inline sweeps::Space cube(int dimensions, double low, double high) {
  sweeps::Space space;
  for (int i = 0; i < dimensions; ++i)
    space.parameters.push_back(number("x" + std::to_string(i), Parameter::Kind::uniform, low, high));
  return space;
}

inline double at(const Point& point, const std::string& path) { return point.at(path).get<double>(); }
inline std::string word(const Point& point, const std::string& path) { return point.at(path); }

inline std::vector<double> coordinates(const Point& point) {
  std::vector<double> x;
  for (std::size_t i = 0; i < point.size(); ++i) x.push_back(at(point, "x" + std::to_string(i)));
  return x;
}

inline double square(double x) { return x * x; }

inline double branin(const Point& point) {
  constexpr double pi = std::numbers::pi;
  const double x = at(point, "x0"), y = at(point, "x1");
  return square(y - 5.1 / (4 * pi * pi) * x * x + 5 / pi * x - 6) + 10 * (1 - 1 / (8 * pi)) * std::cos(x) +
         10;
}

inline double hartmann6(const Point& point) {
  constexpr double height[4] = {1.0, 1.2, 3.0, 3.2};
  constexpr double scale[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                                  {0.05, 10, 17, 0.1, 8, 14},
                                  {3, 3.5, 1.7, 10, 17, 8},
                                  {17, 8, 0.05, 10, 0.1, 14}};
  constexpr double center[4][6] = {{0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886},
                                   {0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991},
                                   {0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650},
                                   {0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381}};
  const std::vector<double> x = coordinates(point);
  double sum = 0;
  for (int i = 0; i < 4; ++i) {
    double distance = 0;
    for (std::size_t j = 0; j < 6; ++j) distance += scale[i][j] * square(x[j] - center[i][j]);
    sum -= height[i] * std::exp(-distance);
  }
  return sum;
}

inline double rosenbrock(const Point& point) {
  const std::vector<double> x = coordinates(point);
  double sum = 0;
  for (std::size_t i = 0; i + 1 < x.size(); ++i)
    sum += 100 * square(x[i + 1] - x[i] * x[i]) + square(1 - x[i]);
  return sum;
}

// The loss of a pretended training: each optimizer has settings of its own, and a network of one to three
// layers has a width for each.
inline double conditional(const Point& point) {
  const double rate = std::log10(at(point, "lr"));
  double loss = 0;
  if (word(point, "optimizer") == "sgd")
    loss = 0.1 + 0.3 * square(rate + 1) + 2 * square(at(point, "momentum") - 0.9);
  else
    loss = 0.05 * square(rate + 3) + 0.5 * square(at(point, "beta") - 0.95) +
           0.03 * square(std::log10(at(point, "epsilon")) + 7);
  const double layers = at(point, "layers");
  loss += 0.1 * std::fabs(layers - 2);
  for (int i = 1; i <= layers; ++i)
    loss += 0.1 * square(std::log2(at(point, "width" + std::to_string(i)) / (256.0 / i))) / layers;
  return loss;
}

inline sweeps::Space conditional_space() {
  using Kind = Parameter::Kind;
  return {{choice("optimizer", {"sgd", "adam"}), number("lr", Kind::log_uniform, 1e-5, 1),
           number("momentum", Kind::uniform, 0, 1, {{"optimizer", {"sgd"}}}),
           number("beta", Kind::uniform, 0, 1, {{"optimizer", {"adam"}}}),
           number("epsilon", Kind::log_uniform, 1e-10, 1e-2, {{"optimizer", {"adam"}}}),
           number("layers", Kind::integer, 1, 3), number("width1", Kind::integer, 16, 1024),
           number("width2", Kind::integer, 16, 1024, {{"layers", {2, 3}}}),
           number("width3", Kind::integer, 16, 1024, {{"layers", {3}}})},
          {}};
}

// Numbers, whole numbers and words that depend on each other.
inline double mixed(const Point& point) {
  const std::string activation = word(point, "activation");
  const double shift = activation == "relu" ? 0 : activation == "tanh" ? 1 : activation == "gelu" ? 0.3 : 2;
  const double rate = std::log10(at(point, "lr")), decay = std::log10(at(point, "decay"));
  return 0.2 * shift + 0.4 * square(rate + 2.5 - 0.3 * shift) + 0.05 * square(decay + 4) +
         0.02 * square(at(point, "depth") - 6) + 0.3 * std::fabs(at(point, "dropout") - 0.1 * shift - 0.1) +
         0.05 * square(std::log2(at(point, "batch")) - 6);
}

inline sweeps::Space mixed_space() {
  using Kind = Parameter::Kind;
  return {
      {choice("activation", {"sigmoid", "tanh", "relu", "gelu"}), number("lr", Kind::log_uniform, 1e-5, 1),
       number("decay", Kind::log_uniform, 1e-7, 1e-1), number("depth", Kind::integer, 1, 12),
       number("dropout", Kind::uniform, 0, 0.8), choice("batch", {8, 16, 32, 64, 128, 256, 512})},
      {}};
}

// The cells of an architecture: each has one right operation, and neighbours should differ.
inline double words(const Point& point) {
  const std::string right = "cadbe";
  double loss = 0.02 * square(at(point, "channels") - 20);
  std::string before;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const std::string operation = word(point, "op" + std::to_string(i));
    if (operation != right.substr(i, 1)) loss += 0.5 + 0.1 * static_cast<double>(i);
    if (operation == before) loss += 0.3;
    before = operation;
  }
  return loss;
}

inline sweeps::Space words_space() {
  sweeps::Space space;
  for (int i = 0; i < 5; ++i)
    space.parameters.push_back(choice("op" + std::to_string(i), {"a", "b", "c", "d", "e"}));
  space.parameters.push_back(number("channels", Parameter::Kind::integer, 4, 40));
  return space;
}

inline std::vector<Problem> problems() {
  sweeps::Space branin_space{
      {number("x0", Parameter::Kind::uniform, -5, 10), number("x1", Parameter::Kind::uniform, 0, 15)}, {}};
  return {{"branin", branin_space, 0.39788735772973816, branin},
          {"hartmann6", cube(6, 0, 1), -3.322368011415515, hartmann6},
          {"rosenbrock5", cube(5, -2.048, 2.048), 0, rosenbrock},
          {"conditional", conditional_space(), 0, conditional},
          {"mixed", mixed_space(), 0, mixed},
          {"words", words_space(), 0, words}};
}

}  // namespace mlk::bench
