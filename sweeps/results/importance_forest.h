// A small, deterministic random forest for regression over the unit cube. Its leaves can be read as boxes.
// Breiman: Random Forests (Machine Learning, 2001). Pure.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace mlk::sweeps {

// Rows of `width` numbers from 0 to 1, one after the other, and the value of each row.
struct Samples {
  std::size_t width = 0;
  std::vector<double> x;
  std::vector<double> y;

  const double* row(std::size_t i) const { return x.data() + i * width; }
};

struct Leaf {
  std::vector<double> low, high;  // the box; each side is longer than 0
  double volume = 0;
  double value = 0;
};

class Tree {
 public:
  // `bag`: the indices of the training rows, with repetitions; not empty.
  Tree(const Samples& samples, std::vector<std::size_t> bag, std::mt19937_64& random);

  double predict(const double* row) const;
  // The boxes of the leaves fill the cube without overlap.
  std::vector<Leaf> leaves() const;

 private:
  struct Node {
    std::size_t feature = 0;
    double split = 0;                 // rows with a value up to `split` go to the left
    std::size_t left = 0, right = 0;  // both 0 in a leaf
    double value = 0;
  };

  struct Growth;
  std::size_t grow(Growth& growth, std::size_t begin, std::size_t end, int depth);
  void collect(std::size_t node, Leaf box, std::vector<Leaf>& leaves) const;

  std::size_t width_;
  std::vector<Node> nodes_;  // the root is the first
};

// Unlike the distributions of the standard library, both functions give the same numbers on every platform.
double random_unit(std::mt19937_64& random);                           // in [0, 1)
std::size_t random_below(std::mt19937_64& random, std::size_t count);  // count is above 0

}  // namespace mlk::sweeps
