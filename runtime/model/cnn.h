// The convolutional network.
#pragma once

#include <vector>

#include "runtime/model/dense_layers.h"
#include "runtime/model/model.h"

namespace mlk::rt {

// Convolutions of 3 x 3 pixels, each followed by a max pool of 2 x 2 and a ReLU; then fully connected layers.
// The weight of convolution i is the tensor "convolutions.<i>.weight" [outputs, 3, 3, inputs]. In PyTorch,
// the last axis is the second one: weight.permute(0, 3, 1, 2). The inputs of the first fully connected layer
// are also ordered as [height, width, channels] here, and differently in PyTorch.
class Cnn final : public Model {
 public:
  // shape: one image. config.channels: the number of channels of each convolution; not empty. `ops` must
  // outlive the model. Throws Failure{bad_configuration} if the pools leave nothing of an image.
  Cnn(const ModelConfig& config, const SampleShape& shape, std::uint64_t seed, kernels::Ops& ops);

 protected:
  void compute_gradients(const Batch& batch, const Final& final) override;
  float loss(const Batch&) override { return layers_.loss(); }
  Evaluation score(const Batch& batch) override;

 private:
  struct Convolution {
    kernels::ImageShape input, convolved, pooled;  // of one image
    std::size_t weight = 0, bias = 0;              // offsets in the arena
    // The outputs of the convolution and of the ReLU, and the gradients with respect to these two.
    kernels::Buffer<float> before_pool = {}, out = {}, before_pool_delta = {}, out_delta = {};
  };

  void reserve(std::size_t batch);
  // Returns the output of the last pool, which is the input of the layers.
  const float* forward(const Batch& batch);

  std::vector<Convolution> convolutions_;
  DenseLayers layers_;
};

}  // namespace mlk::rt
