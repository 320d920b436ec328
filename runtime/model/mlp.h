// The multi-layer perceptron.
#pragma once

#include <vector>

#include "runtime/model/dense_layers.h"
#include "runtime/model/model.h"

namespace mlk::rt {

class Mlp final : public Model {
 public:
  // hidden: the widths of the layers between inputs and logits. `ops` must outlive the model.
  Mlp(const std::vector<int>& hidden, const SampleShape& shape, std::uint64_t seed, kernels::Ops& ops);

 protected:
  void compute_gradients(const Batch& batch, const Final& final) override;
  float loss(const Batch&) override { return layers_.loss(); }
  Evaluation score(const Batch& batch) override;

 private:
  DenseLayers layers_;
};

}  // namespace mlk::rt
