// Networks with one hidden layer, trained on the digits of examples/ by the runtime's own classes.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/ops.h"
#include "runtime/data/image_dataset.h"
#include "runtime/data/sampler.h"
#include "runtime/model/model.h"
#include "runtime/model/optimizer.h"
#include "sweeps/space/space.h"

namespace mlk::bench {

// What is searched: about half of it learns next to nothing.
inline sweeps::Space digits_space() {
  using sweeps::Parameter;
  using Kind = Parameter::Kind;
  return {{{"lr", Kind::log_uniform, {}, 1e-4, 1, {}},
           {"hidden", Kind::integer, {}, 4, 128, {}},
           {"momentum", Kind::uniform, {}, 0, 0.99, {}},
           {"batch", Kind::choice, {8, 16, 32, 64, 128}, 0, 0, {}},
           {"decay", Kind::log_uniform, {}, 1e-6, 1e-1, {}}},
          {}};
}

class Digits {
 public:
  explicit Digits(const std::string& folder)
      : data_(rt::load_idx(folder)), ops_(kernels::make_cpu_ops(1, kernels::Precision::float32)) {}

  // Loss and accuracy on the digits that are not trained on, after each `every` steps. The seed decides the
  // first weights and the order of the samples. Training that diverges has a loss of 10 from then on.
  std::vector<rt::Evaluation> train(const sweeps::Point& point, std::uint64_t seed, std::uint64_t steps,
                                    std::uint64_t every) {
    const auto batch = point.at("batch").get<std::uint64_t>();
    rt::OptimizerConfig config;
    config.lr = point.at("lr");
    config.momentum = point.at("momentum");
    config.weight_decay = point.at("decay");
    const auto made =
        rt::make_model({.hidden = {point.at("hidden").get<int>()}}, data_.train.shape(), seed, *ops_);
    rt::Model& model = *made;
    const rt::Optimizer optimizer(config, steps);
    std::vector<float> state(optimizer.slots() * model.parameters().size());
    std::vector<rt::Evaluation> curve;
    bool diverged = false;
    for (std::uint64_t step = 0; step < steps; ++step) {
      if (!diverged) {
        diverged = !std::isfinite(model.loss_and_gradients(batch_at(seed, step * batch, batch)));
        optimizer.apply(*ops_, model.parameters(), model.gradients(), state, {step, step});
      }
      if ((step + 1) % every == 0) curve.push_back(evaluate(model, diverged));
    }
    return curve;
  }

 private:
  static constexpr double worst_loss = 10;

  rt::Batch batch_at(std::uint64_t seed, std::uint64_t position, std::uint64_t batch) {
    ids_.clear();
    for (std::uint64_t i = 0; i < batch; ++i)
      ids_.push_back(rt::sample_at(seed, position + i, data_.train.size()));
    return data_.train.gather(ids_, buffer_);
  }

  rt::Evaluation evaluate(rt::Model& model, bool diverged) const {
    if (diverged) return {worst_loss, 0};
    rt::Evaluation told = *model.evaluate(data_.held_out);
    if (!(told.loss < worst_loss)) told.loss = worst_loss;
    return told;
  }

  const rt::ImageSplit data_;
  const std::unique_ptr<kernels::Ops> ops_;
  rt::BatchBuffer buffer_{*ops_};
  std::vector<std::uint64_t> ids_;
};

}  // namespace mlk::bench
