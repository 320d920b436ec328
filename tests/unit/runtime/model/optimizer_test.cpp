// Tests the update rules against numbers worked out from their papers, on either implementation of the
// loops.
#include "runtime/model/optimizer.h"

#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/ops.h"
#include "kernels/reference/reference_ops.h"
#include "runtime/base/exit_code.h"
#include "runtime/base/random.h"

TEST_SUITE_BEGIN("runtime/model/optimizer");

using namespace mlk::rt;
namespace kernels = mlk::kernels;

namespace {

using mlk::kernels::Floats;
constexpr auto adam = OptimizerType::adam, adamw = OptimizerType::adamw;

// One parameter that starts at 1, after each of three updates with these gradients.
Floats three_updates(const OptimizerConfig& config, kernels::Ops& ops) {
  const Optimizer optimizer(config, 1);
  Floats parameter{1}, state(optimizer.slots()), seen;
  std::uint64_t step = 0;
  for (float gradient : {0.5f, -0.25f, 1.0f}) {
    optimizer.apply(ops, parameter, Floats{gradient}, state, {step, step, 0});
    seen.push_back(parameter[0]);
    ++step;
  }
  return seen;
}

void check_updates(const OptimizerConfig& config, const std::vector<double>& expected) {
  for (auto make : {kernels::make_reference_ops, +[] { return kernels::make_cpu_ops(); }}) {
    auto ops = make();
    CAPTURE(ops->name());
    const Floats seen = three_updates(config, *ops);
    for (std::size_t i = 0; i < 3; ++i) CHECK(std::abs(static_cast<double>(seen[i]) - expected[i]) < 1e-6);
  }
}

// Adam as the paper has it: moments that start at zero, corrected when they are read.
double textbook_adam(const OptimizerConfig& config, double parameter, const Floats& gradients) {
  double first = 0, second = 0;
  for (std::size_t t = 1; t <= gradients.size(); ++t) {
    double g = static_cast<double>(gradients[t - 1]);
    if (config.type == adam) g += config.weight_decay * parameter;
    if (config.type == adamw) parameter -= config.lr * config.weight_decay * parameter;
    first = config.beta1 * first + (1 - config.beta1) * g;
    second = config.beta2 * second + (1 - config.beta2) * g * g;
    const auto count = static_cast<double>(t);
    const double mean = first / (1 - std::pow(config.beta1, count));
    const double square = second / (1 - std::pow(config.beta2, count));
    parameter -= config.lr * mean / (std::sqrt(square) + config.epsilon);
  }
  return parameter;
}

}  // namespace

TEST_CASE("stochastic gradient descent applies momentum, weight decay and nesterov") {
  check_updates({.lr = 0.1}, {0.95, 0.975, 0.875});
  check_updates({.lr = 0.1, .momentum = 0.9}, {0.95, 0.93, 0.812});
  check_updates({.lr = 0.1, .weight_decay = 0.5, .momentum = 0.9}, {0.9, 0.79, 0.5515});
  check_updates({.lr = 0.1, .weight_decay = 0.5, .momentum = 0.9, .nesterov = true},
                {0.81, 0.69955, 0.35763775});
}

TEST_CASE(
    "the first step of adam is as long as the learning rate, and adam adds the weight decay to the "
    "gradient") {
  check_updates({.type = adam, .lr = 0.1}, {0.9, 0.8733662987, 0.8075551397});
  check_updates({.type = adam, .lr = 0.1, .weight_decay = 0.5}, {0.9, 0.8196959042, 0.7315606208});
}

TEST_CASE("adamw subtracts the weight decay from the parameters") {
  check_updates({.type = adamw, .lr = 0.1}, {0.9, 0.8733662987, 0.8075551397});
  check_updates({.type = adamw, .lr = 0.1, .weight_decay = 0.5}, {0.85, 0.7808662986, 0.6760118246});
}

TEST_CASE("over many updates, adam agrees with the paper") {
  Floats gradients;
  for (std::uint64_t i = 0; i < 3000; ++i) gradients.push_back(uniform(1, 0, i) - 0.4f);
  for (const OptimizerType type : {adam, adamw}) {
    const OptimizerConfig config{.type = type, .lr = 0.001, .weight_decay = 0.1};
    const Optimizer optimizer(config, 1);
    auto ops = kernels::make_cpu_ops();
    Floats parameter{1}, state(2);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      optimizer.apply(*ops, parameter, std::span(gradients).subspan(i, 1), state, {i, i, 0});
    CHECK(std::abs(static_cast<double>(parameter[0]) - textbook_adam(config, 1, gradients)) < 1e-4);
  }
}

TEST_CASE("adam uses the betas and the epsilon of the configuration") {
  for (const OptimizerType type : {adam, adamw}) {
    const OptimizerConfig config{
        .type = type, .lr = 0.1, .weight_decay = 0.2, .beta1 = 0.5, .beta2 = 0.7, .epsilon = 0.5};
    const Floats gradients{0.5f, -0.25f, 1.0f};
    std::vector<double> expected;
    for (std::size_t count = 1; count <= gradients.size(); ++count)
      expected.push_back(textbook_adam(
          config, 1, Floats(gradients.begin(), gradients.begin() + static_cast<std::ptrdiff_t>(count))));
    check_updates(config, expected);
  }
}

TEST_CASE("the learning rate follows the schedule by the step of the run") {
  auto ops = kernels::make_cpu_ops();
  const ScheduleConfig linear{.type = ScheduleType::linear};
  for (const OptimizerType type : {OptimizerType::sgd, adam, adamw}) {
    const Optimizer optimizer({.type = type, .lr = 0.5, .epsilon = 1e-12, .schedule = linear}, 10);
    for (const std::uint64_t step : {0, 3, 9, 10}) {
      Floats parameter{0}, state(optimizer.slots());
      optimizer.apply(*ops, parameter, Floats{1}, state, {step, 0, 0});
      CHECK(parameter[0] == doctest::Approx(-0.05 * static_cast<double>(10 - step)));
    }
  }
}

TEST_CASE("the first updates of adam after a late reset are as large as at the start of a run") {
  auto ops = kernels::make_cpu_ops();
  const Optimizer optimizer({.type = adam, .lr = 0.1}, 1);
  Floats early{1}, late{1}, early_state(2), late_state(2);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Floats gradient{uniform(2, 0, i)};
    optimizer.apply(*ops, early, gradient, early_state, {i, i, 0});
    optimizer.apply(*ops, late, gradient, late_state, {5000 + i, i, 0});
    CHECK(late == early);
  }
}

TEST_CASE("a gradient that is 3 updates old moves the parameter by a quarter of a full step") {
  auto ops = kernels::make_cpu_ops();
  for (const OptimizerType type : {OptimizerType::sgd, adam, adamw}) {
    const Optimizer optimizer({.type = type, .lr = 0.1}, 1);
    Floats parameter{0}, state(optimizer.slots());
    optimizer.apply(*ops, parameter, Floats{1}, state, {0, 0, 3});
    CHECK(parameter[0] == doctest::Approx(-0.1 / 4));
  }
}

TEST_CASE("separate updates of two parts of the parameters give the same bits as one update of the whole") {
  auto ops = kernels::make_cpu_ops();
  const Optimizer optimizer({.type = adamw, .lr = 0.1, .weight_decay = 0.01}, 1);
  constexpr std::size_t size = 50, cut = 17;
  Floats whole, gradients, state;
  for (std::uint64_t i = 0; i < size; ++i) {
    whole.push_back(uniform(3, 0, i));
    gradients.push_back(uniform(3, 1, i));
  }
  for (std::uint64_t i = 0; i < 2 * size; ++i) state.push_back(uniform(3, 2, i));
  Floats parts = whole;
  const Floats state_before = state;
  optimizer.apply(*ops, whole, gradients, state, {9, 9, 0});
  for (const auto& [offset, length] : {std::pair{std::size_t{0}, cut}, std::pair{cut, size - cut}}) {
    Floats part = part_of_state(state_before, 2, offset, length);
    REQUIRE(part.size() == 2 * length);
    CHECK(part[length] == state_before[size + offset]);
    optimizer.apply(*ops, std::span(parts).subspan(offset, length),
                    std::span(gradients).subspan(offset, length), part, {9, 9, 0});
    CHECK(part == part_of_state(state, 2, offset, length));
  }
  CHECK(parts == whole);
}

TEST_CASE("the state of an optimizer with another number of slots is refused") {
  const Optimizer sgd({.type = OptimizerType::sgd}, 1), two({.type = adam}, 1);
  CHECK_NOTHROW(sgd.check_fits(Floats(5), 5));
  CHECK_NOTHROW(two.check_fits(Floats(10), 5));
  CHECK_NOTHROW(two.check_fits(Floats(), 5));
  CHECK_THROWS_WITH_AS(
      two.check_fits(Floats(5), 5),
      "the checkpoint was made with another optimizer: its values of state per parameter are 1, not 2",
      Failure);
  CHECK_THROWS_WITH_AS(
      sgd.check_fits(Floats(10), 5),
      "the checkpoint was made with another optimizer: its values of state per parameter are 2, not 1",
      Failure);
}
