// Forward and backward through convolutions, pools and layers. A pool comes before the bias and the ReLU, so
// that these two have only a quarter of the work. A pool after them would give the same result, because bias
// and ReLU do not change which number is the largest.
#include "runtime/model/cnn.h"

#include <limits>
#include <string>

#include "runtime/base/exit_code.h"

namespace mlk::rt {
namespace {

constexpr int kernel = 3;

kernels::ImageShape halved(const kernels::ImageShape& image, int channels) {
  return {1, image.height / 2, image.width / 2, channels};
}

// Returns the shape of the image after the last pool.
kernels::ImageShape last_image(const ModelConfig& config, const SampleShape& shape) {
  kernels::ImageShape image = shape.image;
  for (const int channels : config.channels) image = halved(image, channels);
  if (image.pixels() == 0) {
    throw Failure(ExitCode::bad_configuration,
                  "configuration: model.channels has " + std::to_string(config.channels.size()) +
                      " convolutions, each of which halves the image: nothing is left of " +
                      std::to_string(shape.image.height) + " x " + std::to_string(shape.image.width) +
                      " pixels");
  }
  return image;
}

DenseLayers::Widths widths_behind(const ModelConfig& config, const SampleShape& shape) {
  const kernels::ImageShape image = last_image(config, shape);
  return DenseLayers::widths(image.pixels() * image.channels, config.hidden, shape.classes);
}

std::vector<TensorInfo> all_tensors(const ModelConfig& config, const SampleShape& shape) {
  std::vector<TensorInfo> tensors;
  int inputs = shape.image.channels;
  for (std::size_t i = 0; i < config.channels.size(); ++i) {
    const std::string prefix = "convolutions." + std::to_string(i) + ".";
    tensors.push_back({prefix + "weight", {config.channels[i], kernel, kernel, inputs}});
    tensors.push_back({prefix + "bias", {config.channels[i]}});
    inputs = config.channels[i];
  }
  DenseLayers::name_tensors(widths_behind(config, shape), tensors);
  return tensors;
}

kernels::ImageShape times(std::size_t batch, kernels::ImageShape image) {
  image.batch = static_cast<int>(batch);
  return image;
}

std::size_t numbers_in(const kernels::ImageShape& shape) {
  return static_cast<std::size_t>(shape.pixels()) * static_cast<std::size_t>(shape.channels);
}

}  // namespace

Cnn::Cnn(const ModelConfig& config, const SampleShape& shape, std::uint64_t seed, kernels::Ops& ops)
    : Model(all_tensors(config, shape), ops),
      layers_(widths_behind(config, shape), tensors_, 2 * config.channels.size(), ops) {
  kernels::ImageShape image = shape.image;
  for (std::size_t i = 0; i < config.channels.size(); ++i) {
    kernels::ImageShape convolved = image;
    convolved.channels = config.channels[i];
    const kernels::ImageShape pooled = halved(image, config.channels[i]);
    convolutions_.push_back({.input = image,
                             .convolved = convolved,
                             .pooled = pooled,
                             .weight = tensors_[2 * i].offset,
                             .bias = tensors_[2 * i + 1].offset});
    image = pooled;
  }
  Model::initialise(seed);
}

// The memory grows to the largest batch so far, and never shrinks.
void Cnn::reserve(std::size_t batch) {
  const int pixels = convolutions_.front().input.pixels();
  if (batch > static_cast<std::size_t>(std::numeric_limits<int>::max() / pixels)) {
    throw Failure(ExitCode::bad_configuration, "configuration: data.batch is too large for images of " +
                                                   std::to_string(pixels) + " pixels");
  }
  const auto grow = [this](kernels::Buffer<float>& buffer, std::size_t size) {
    if (buffer.size() < size) buffer = ops_.allocate<float>(size);
  };
  for (Convolution& one : convolutions_) {
    for (kernels::Buffer<float>* buffer : {&one.before_pool, &one.before_pool_delta})
      grow(*buffer, batch * numbers_in(one.convolved));
    for (kernels::Buffer<float>* buffer : {&one.out, &one.out_delta})
      grow(*buffer, batch * numbers_in(one.pooled));
  }
}

const float* Cnn::forward(const Batch& batch) {
  reserve(batch.size);
  const float* input = batch.inputs.data();
  for (Convolution& one : convolutions_) {
    const kernels::ImageShape pooled = times(batch.size, one.pooled);
    ops_.convolve(times(batch.size, one.input), pooled.channels, kernel, input,
                  parameters_.data() + one.weight, one.before_pool.data());
    ops_.max_pool(times(batch.size, one.convolved), one.before_pool.data(), one.out.data());
    ops_.add_bias_relu(pooled.pixels(), pooled.channels, parameters_.data() + one.bias, one.out.data());
    input = one.out.data();
  }
  layers_.forward(static_cast<int>(batch.size), input, parameters_.data(), batch.dropout);
  return input;
}

void Cnn::compute_gradients(const Batch& batch, const Final& final) {
  const float* const layers_input = forward(batch);
  layers_.backward(static_cast<int>(batch.size), layers_input, batch.labels.data(), parameters_.data(),
                   gradients_.data(), final, batch.dropout, convolutions_.back().out_delta.data());
  for (std::size_t i = convolutions_.size(); i-- > 0;) {
    Convolution& one = convolutions_[i];
    const kernels::ImageShape pooled = times(batch.size, one.pooled);
    ops_.bias_relu_backward(pooled.pixels(), pooled.channels, one.out.data(), one.out_delta.data(),
                            gradients_.data() + one.bias);
    ops_.max_pool_backward(times(batch.size, one.convolved), one.before_pool.data(), one.out_delta.data(),
                           one.before_pool_delta.data());
    const float* input = i == 0 ? batch.inputs.data() : convolutions_[i - 1].out.data();
    ops_.convolve_backward(times(batch.size, one.input), pooled.channels, kernel, input,
                           parameters_.data() + one.weight, one.before_pool_delta.data(),
                           i == 0 ? nullptr : convolutions_[i - 1].out_delta.data(),
                           gradients_.data() + one.weight);
    if (final) final(one.weight);
  }
}

Evaluation Cnn::score(const Batch& batch) {
  forward(batch);
  return layers_.score(static_cast<int>(batch.size), batch.labels.data());
}

}  // namespace mlk::rt
