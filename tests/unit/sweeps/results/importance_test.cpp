#include "sweeps/results/importance.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include <doctest/doctest.h>

#include "sweeps/results/importance_forest.h"

TEST_SUITE_BEGIN("sweeps/results/importance");

using namespace mlk::sweeps;

namespace {

using Function = std::function<double(const std::vector<double>&)>;

Space uniform_space(std::size_t count) {
  Space space;
  for (std::size_t i = 0; i < count; ++i)
    space.parameters.push_back({"p" + std::to_string(i), Parameter::Kind::uniform, {}, 0, 1, {}});
  return space;
}

Trial succeeded(Point point, double value) {
  Trial trial;
  trial.point = std::move(point);
  trial.state = TrialState::succeeded;
  trial.objective = value;
  return trial;
}

std::vector<Trial> sampled(const Space& space, std::size_t count, const Function& function) {
  std::mt19937_64 random(1);
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < count; ++i) {
    Point point;
    std::vector<double> x;
    for (const Parameter& parameter : space.parameters) {
      x.push_back(random_unit(random));
      point[parameter.path] = x.back();
    }
    trials.push_back(succeeded(point, function(x)));
  }
  return trials;
}

double share_of(const Importance& found, const std::string& path, const std::string& with = "") {
  for (const Effect& effect : found.effects) {
    if (effect.path == path && effect.with == with) return effect.share;
    if (!with.empty() && effect.path == with && effect.with == path) return effect.share;
  }
  return 0;
}

double total(const Importance& found) {
  double sum = 0;
  for (const Effect& effect : found.effects) sum += effect.share;
  return sum;
}

}  // namespace

TEST_CASE("importance() gives each parameter its share of the variance if each parameter adds its own term") {
  const Space space = uniform_space(4);
  // The variances of the terms are 9/12, 1/12, 0 and 0.
  const Importance found =
      importance(space, sampled(space, 500, [](const auto& x) { return 3 * x[0] + x[1]; }), {});
  CHECK(found.reason.empty());
  CHECK(found.trials == 500);
  CHECK(found.fit > 0.9);
  CHECK(share_of(found, "p0") == doctest::Approx(0.9).epsilon(0.08));
  CHECK(share_of(found, "p1") == doctest::Approx(0.1).epsilon(0.5));
  CHECK(share_of(found, "p2") < 0.02);
  CHECK(share_of(found, "p3") < 0.02);
  CHECK(found.effects.front().path == "p0");
}

TEST_CASE("importance() reports an interaction of two parameters if an effect needs both of them") {
  const Space space = uniform_space(3);
  const Importance found = importance(
      space, sampled(space, 600, [](const auto& x) { return (x[0] > 0.5) != (x[1] > 0.5) ? 1.0 : 0.0; }), {});
  CHECK(share_of(found, "p0", "p1") > 0.7);
  CHECK(share_of(found, "p0") < 0.1);
  CHECK(share_of(found, "p1") < 0.1);
  CHECK(share_of(found, "p0", "p2") < 0.05);
}

TEST_CASE("the shares of all effects add up to at most one") {
  const Space space = uniform_space(5);
  const Importance found = importance(
      space, sampled(space, 200, [](const auto& x) { return x[0] * x[1] + std::sin(9 * x[2]) * x[3]; }), {});
  CHECK(total(found) <= 1 + 1e-9);
  CHECK(total(found) > 0.3);
  for (const Effect& effect : found.effects) CHECK(effect.share >= 0);
}

TEST_CASE("importance() returns the same result for the same trials") {
  const Space space = uniform_space(3);
  const std::vector<Trial> trials = sampled(space, 100, [](const auto& x) { return x[0] - x[1] * x[2]; });
  const Importance one = importance(space, trials, {}), other = importance(space, trials, {});
  REQUIRE(one.effects.size() == other.effects.size());
  for (std::size_t i = 0; i < one.effects.size(); ++i) {
    CHECK(one.effects[i].path == other.effects[i].path);
    CHECK(one.effects[i].share == other.effects[i].share);
  }
  CHECK(one.fit == other.fit);
}

TEST_CASE("importance() reports a bad fit if the values are noise") {
  std::mt19937_64 random(7);
  const Space space = uniform_space(3);
  const Importance found =
      importance(space, sampled(space, 300, [&](const auto&) { return random_unit(random); }), {});
  CHECK(found.fit < 0.2);
}

TEST_CASE("importance() averages over a parameter's whole range, even if most trials have the same value") {
  Space space;
  space.parameters = {{"lr", Parameter::Kind::log_uniform, {}, 1e-6, 1, {}},
                      {"layers", Parameter::Kind::integer, {}, 1, 3, {}},
                      {"kind", Parameter::Kind::choice, {"a", "b"}, 0, 0, {}}};
  std::mt19937_64 random(3);
  std::vector<Trial> trials;
  for (int i = 0; i < 400; ++i) {
    const double exponent = -6 * random_unit(random);
    const int layers = 1 + static_cast<int>(random_below(random, 3));
    const bool is_a = i % 10 != 0;  // nine of ten trials, but half of the space
    trials.push_back(
        succeeded({{"lr", std::pow(10, exponent)}, {"layers", layers}, {"kind", is_a ? "a" : "b"}},
                  exponent / 6 + layers * 0.5 + (is_a ? 0 : 1)));
  }
  // The variances of the terms are 1/12, 1/6 and 1/4.
  const Importance found = importance(space, trials, {});
  CHECK(share_of(found, "lr") == doctest::Approx(1.0 / 6).epsilon(0.35));
  CHECK(share_of(found, "layers") == doctest::Approx(2.0 / 6).epsilon(0.25));
  CHECK(share_of(found, "kind") == doctest::Approx(3.0 / 6).epsilon(0.25));
}

TEST_CASE("importance() separates a conditional parameter from the parameter in its condition") {
  Space space;
  space.parameters = {{"type", Parameter::Kind::choice, {"sgd", "adam"}, 0, 0, {}},
                      {"momentum", Parameter::Kind::uniform, {}, 0, 1, {{"type", {"sgd"}}}}};
  std::mt19937_64 random(5);
  std::vector<Trial> without_effect, with_effect;
  for (int i = 0; i < 400; ++i) {
    const bool sgd = i % 2 == 0;
    Point point{{"type", sgd ? "sgd" : "adam"}};
    const double momentum = random_unit(random);
    if (sgd) point["momentum"] = momentum;
    without_effect.push_back(succeeded(point, sgd ? 1 : 0));
    with_effect.push_back(succeeded(point, sgd ? 4 * momentum : 2));
  }
  const Importance parent = importance(space, without_effect, {});
  CHECK(share_of(parent, "type") > 0.95);
  CHECK(share_of(parent, "momentum") < 0.02);
  // The value is 4 m in one half of the space, and 2 in the other half. Momentum alone explains half of the
  // variance, and the pair explains the other half.
  const Importance child = importance(space, with_effect, {});
  CHECK(share_of(child, "momentum") == doctest::Approx(0.5).epsilon(0.2));
  CHECK(share_of(child, "momentum", "type") == doctest::Approx(0.5).epsilon(0.2));
  CHECK(share_of(child, "type") < 0.1);
}

TEST_CASE("importance() finds the parameter that matters, even if some trials have diverged") {
  const Space space = uniform_space(2);
  std::vector<Trial> trials = sampled(space, 300, [](const auto& x) { return x[0]; });
  for (std::size_t i = 0; i < trials.size(); i += 50) trials[i].objective = 1e200;
  CHECK(share_of(importance(space, trials, {}), "p0") > 0.6);
  for (Trial& trial : trials) trial.objective = -*trial.objective;
  Objective maximized;
  maximized.goal = Objective::Goal::maximize;
  CHECK(share_of(importance(space, trials, maximized), "p0") > 0.6);
}

TEST_CASE("importance() returns a reason instead of effects if there are too few trials") {
  const Space space = uniform_space(2);
  const std::vector<Trial> few = sampled(space, fewest_trials - 1, [](const auto& x) { return x[0]; });
  CHECK(importance(space, few, {}).effects.empty());
  CHECK(importance(space, few, {}).reason == "only 11 trials succeeded with a value; this needs 12");
  CHECK(importance(space, sampled(space, 50, [](const auto&) { return 0.5; }), {}).reason ==
        "all trials have the same value");
  CHECK(importance(space, sampled(space, 50, [](const auto&) { return 0.0; }), {}).reason ==
        "all trials have the same value");
  CHECK(importance({}, {}, {}).reason == "the sweep has no parameters");
}

TEST_CASE("importance() uses the trials that succeeded with a finite value") {
  const Space space = uniform_space(2);
  std::vector<Trial> trials = sampled(space, 40, [](const auto& x) { return x[0]; });
  for (std::size_t i = 0; i < 20; ++i) trials[i].state = i < 10 ? TrialState::failed : TrialState::stopped;
  trials[20].objective.reset();
  trials[21].objective = std::numeric_limits<double>::quiet_NaN();
  trials[22].objective = std::numeric_limits<double>::infinity();
  CHECK(importance(space, trials, {}).trials == 17);
}

TEST_CASE("importance() accepts values that have a wrong type or are outside of their range") {
  Space space = uniform_space(2);
  space.parameters.push_back({"choice", Parameter::Kind::choice, {1, "x"}, 0, 0, {}});
  space.parameters.push_back({"one", Parameter::Kind::integer, {}, 3, 3, {}});
  space.parameters.push_back({"log", Parameter::Kind::log_uniform, {}, 1, 1, {}});
  std::vector<Trial> trials;
  for (int i = 0; i < 60; ++i) {
    trials.push_back(succeeded({{"p0", i % 2 == 0 ? nlohmann::json("text") : nlohmann::json(1e300)},
                                {"p1", i % 3 == 0 ? nlohmann::json(nullptr) : nlohmann::json(-5)},
                                {"choice", nlohmann::json::array({i})},
                                {"one", i},
                                {"log", -i}},
                               i % 5));
  }
  const Importance found = importance(space, trials, {});
  CHECK(found.effects.size() >= 5);
  CHECK(total(found) <= 1 + 1e-9);
}

TEST_CASE("the leaves of a tree cover the whole cube, and predict the same values as the tree") {
  std::mt19937_64 random(11);
  Samples samples;
  samples.width = 3;
  std::vector<std::size_t> bag;
  for (std::size_t i = 0; i < 200; ++i) {
    for (int j = 0; j < 3; ++j) samples.x.push_back(random_unit(random));
    samples.y.push_back(samples.x[3 * i] > 0.5 ? samples.x[3 * i + 1] : -1);
    bag.push_back(i);
  }
  const Tree tree(samples, bag, random);
  const std::vector<Leaf> leaves = tree.leaves();
  CHECK(leaves.size() > 4);
  double volume = 0;
  for (const Leaf& leaf : leaves) volume += leaf.volume;
  CHECK(volume == doctest::Approx(1));
  for (std::size_t i = 0; i < 200; ++i) {
    const double* row = samples.row(i);
    const auto holds_row = [&](const Leaf& leaf) {
      for (std::size_t j = 0; j < 3; ++j) {
        if (row[j] <= leaf.low[j] || row[j] > leaf.high[j]) return false;
      }
      return true;
    };
    CHECK(std::count_if(leaves.begin(), leaves.end(), holds_row) == 1);
    CHECK(std::find_if(leaves.begin(), leaves.end(), holds_row)->value == tree.predict(row));
  }
}
