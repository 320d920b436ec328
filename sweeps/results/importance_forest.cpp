#include "sweeps/results/importance_forest.h"

#include <algorithm>
#include <numeric>

namespace mlk::sweeps {
namespace {

constexpr std::size_t smallest_leaf = 3;  // rows
constexpr int deepest = 40;
constexpr double smallest_gap =
    1e-9;  // between values that a split separates; thus no side of a box has length 0

struct Split {
  std::size_t feature = 0;
  double at = 0;
  double gain = 0;  // the decrease of the sum of squared errors; 0: no split
};

}  // namespace

double random_unit(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

std::size_t random_below(std::mt19937_64& random, std::size_t count) {
  return static_cast<std::size_t>(random_unit(random) * static_cast<double>(count));
}

struct Tree::Growth {
  const Samples& samples;
  std::vector<std::size_t> bag;
  std::mt19937_64& random;
  std::vector<std::size_t> features;  // shuffled anew for every node

  double sum(std::size_t begin, std::size_t end) const {
    double total = 0;
    for (std::size_t i = begin; i < end; ++i) total += samples.y[bag[i]];
    return total;
  }

  // The best split of this part of the bag. Sorts the part by the feature.
  Split best_split(std::size_t feature, std::size_t begin, std::size_t end) {
    const auto value = [&](std::size_t i) { return samples.row(bag[i])[feature]; };
    std::sort(bag.begin() + static_cast<std::ptrdiff_t>(begin),
              bag.begin() + static_cast<std::ptrdiff_t>(end), [&](std::size_t a, std::size_t b) {
                const double x = samples.row(a)[feature], y = samples.row(b)[feature];
                return x != y ? x < y : a < b;
              });
    const double total = sum(begin, end), rows = static_cast<double>(end - begin);
    Split best;
    best.feature = feature;
    double left = 0;
    for (std::size_t i = begin; i + smallest_leaf < end; ++i) {
      left += samples.y[bag[i]];
      const std::size_t count = i + 1 - begin;
      if (count < smallest_leaf || value(i + 1) - value(i) < smallest_gap) continue;
      const double n = static_cast<double>(count), right = total - left;
      const double gain = left * left / n + right * right / (rows - n) - total * total / rows;
      if (gain > best.gain) {
        best.gain = gain;
        best.at = value(i) + (value(i + 1) - value(i)) / 2;
      }
    }
    return best;
  }
};

Tree::Tree(const Samples& samples, std::vector<std::size_t> bag, std::mt19937_64& random)
    : width_(samples.width) {
  Growth growth{samples, std::move(bag), random, std::vector<std::size_t>(width_)};
  std::iota(growth.features.begin(), growth.features.end(), std::size_t{0});
  grow(growth, 0, growth.bag.size(), 0);
}

std::size_t Tree::grow(Growth& growth, std::size_t begin, std::size_t end, int depth) {
  const std::size_t node = nodes_.size();
  nodes_.emplace_back();
  nodes_[node].value = growth.sum(begin, end) / static_cast<double>(end - begin);
  if (end - begin < 2 * smallest_leaf || depth == deepest) return node;

  // Tries five sixths of the features, as the authors of fANOVA do.
  const std::size_t tried = (5 * width_ + 5) / 6;
  Split best;
  for (std::size_t i = 0; i < tried; ++i) {
    std::swap(growth.features[i], growth.features[i + random_below(growth.random, width_ - i)]);
    const Split split = growth.best_split(growth.features[i], begin, end);
    if (split.gain > best.gain) best = split;
  }
  constexpr double rounding = 1e-12;  // the values have a variance of 1
  if (best.gain <= rounding) return node;

  const auto middle =
      std::partition(growth.bag.begin() + static_cast<std::ptrdiff_t>(begin),
                     growth.bag.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](std::size_t i) { return growth.samples.row(i)[best.feature] <= best.at; });
  const std::size_t cut = static_cast<std::size_t>(middle - growth.bag.begin());
  nodes_[node].feature = best.feature;
  nodes_[node].split = best.at;
  const std::size_t left = grow(growth, begin, cut, depth + 1);
  const std::size_t right = grow(growth, cut, end, depth + 1);
  nodes_[node].left = left;
  nodes_[node].right = right;
  return node;
}

double Tree::predict(const double* row) const {
  std::size_t at = 0;
  while (nodes_[at].left != 0) {
    at = row[nodes_[at].feature] <= nodes_[at].split ? nodes_[at].left : nodes_[at].right;
  }
  return nodes_[at].value;
}

std::vector<Leaf> Tree::leaves() const {
  std::vector<Leaf> found;
  collect(0, Leaf{std::vector<double>(width_, 0), std::vector<double>(width_, 1), 1, 0}, found);
  return found;
}

void Tree::collect(std::size_t node, Leaf box, std::vector<Leaf>& leaves) const {
  const Node& here = nodes_[node];
  if (here.left == 0) {
    box.value = here.value;
    box.volume = 1;
    for (std::size_t i = 0; i < width_; ++i) box.volume *= box.high[i] - box.low[i];
    leaves.push_back(std::move(box));
    return;
  }
  Leaf left = box;
  left.high[here.feature] = here.split;
  collect(here.left, std::move(left), leaves);
  box.low[here.feature] = here.split;
  collect(here.right, std::move(box), leaves);
}

}  // namespace mlk::sweeps
