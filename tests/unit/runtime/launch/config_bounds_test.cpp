#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/base/exit_code.h"
#include "runtime/launch/config.h"
#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/launch/config_bounds");

namespace mlk::rt {
namespace {
using nlohmann::json;

namespace config_bounds {

json usual() {
  return json::parse(R"({
    "schema": 1, "mode": "ps", "model": {"type": "mlp", "hidden": [8]}, "precision": "float32",
    "data": {"format": "idx", "batch": 64},
    "optimizer": {"type": "sgd", "lr": 0.5, "momentum": 0.5, "nesterov": false, "weight_decay": 0.5,
                  "schedule": {"type": "constant", "warmup": 0}},
    "consistency": {"staleness": 4}, "steps": 2000, "seed": 1, "report_every": 50, "evaluate_every": 500,
    "step_delay_ms": 3, "workers": {"count": 5, "min": 2}, "servers": {"count": 2},
    "checkpoint": {"every": 100, "keep": 3}, "patience_seconds": 900, "offline_seconds": 60})");
}

json with_optimizer(json config, const char* type) {
  config["optimizer"] = {{"type", type},
                         {"lr", 0.5},
                         {"weight_decay", 0.5},
                         {"beta1", 0.5},
                         {"beta2", 0.5},
                         {"epsilon", 0.5},
                         {"schedule", {{"type", "constant"}, {"warmup", 0}}}};
  return config;
}

json with_schedule(const json& schedule) {
  json config = usual();
  config["optimizer"]["schedule"] = schedule;
  return config;
}

// The reason for which the configuration is refused; empty if it is accepted.
std::string refusal(const json& config) {
  try {
    parse_config(config.dump());
    return "";
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::bad_configuration);
    return failure.what();
  }
}

std::string refusal_of(json config, const std::string& pointer, const json& value) {
  config[json::json_pointer(pointer)] = value;
  return refusal(config);
}

struct Whole {
  const char* pointer;
  const char* name;
  std::uint64_t least, most;
};

void check_whole(const json& config, const Whole& key) {
  CAPTURE(key.pointer);
  const std::string message = std::string("configuration: ") + key.name + " must be a whole number from " +
                              std::to_string(key.least) + " to " + std::to_string(key.most);
  CHECK(refusal_of(config, key.pointer, key.least) == "");
  CHECK(refusal_of(config, key.pointer, key.most) == "");
  if (key.least > 0) CHECK(refusal_of(config, key.pointer, key.least - 1) == message);
  if (key.most < std::numeric_limits<std::uint64_t>::max())
    CHECK(refusal_of(config, key.pointer, key.most + 1) == message);
  for (const json& wrong : {json(-1), json(1.5), json("1"), json(true), json(nullptr)})
    CHECK(refusal_of(config, key.pointer, wrong) == message);
}

// A number with bounds: the values `in` are accepted, the values `out` are refused.
struct Real {
  json config;
  const char* pointer;
  const char* name;
  const char* range;
  std::vector<double> in, out;
};

void check_real(const Real& key) {
  CAPTURE(key.pointer);
  const std::string start = std::string("configuration: ") + key.name + " must be ";
  for (const double value : key.in) CHECK(refusal_of(key.config, key.pointer, value) == "");
  for (const double value : key.out) CHECK(refusal_of(key.config, key.pointer, value) == start + key.range);
  CHECK(refusal_of(key.config, key.pointer, "1") == start + "a number");
  CHECK(refusal_of(key.config, key.pointer, true) == start + "a number");
}

}  // namespace config_bounds

TEST_CASE(
    "each integer key of the configuration accepts the values from its minimum to its maximum, and no "
    "others") {
  using namespace config_bounds;
  constexpr std::uint64_t million = 1'000'000, steps = 1'000'000'000'000;
  const Whole keys[] = {
      {"/schema", "schema", 1, 1},
      {"/model/hidden/0", "model.hidden", 1, 65536},
      {"/data/batch", "data.batch", 1, million},
      {"/optimizer/schedule/warmup", "optimizer.schedule.warmup", 0, 1999},
      {"/consistency/staleness", "consistency.staleness", 0, million},
      {"/steps", "steps", 1, steps},
      {"/seed", "seed", 0, std::numeric_limits<std::uint64_t>::max()},
      {"/report_every", "report_every", 1, steps},
      {"/evaluate_every", "evaluate_every", 0, steps},
      {"/step_delay_ms", "step_delay_ms", 0, 3'600'000},
      {"/workers/min", "workers.min", 1, 5},
      {"/servers/count", "servers.count", 1, 64},
      {"/checkpoint/every", "checkpoint.every", 0, steps},
      {"/checkpoint/keep", "checkpoint.keep", 1, million},
      {"/patience_seconds", "patience_seconds", 1, million},
      {"/offline_seconds", "offline_seconds", 0, million},
  };
  for (const Whole& key : keys) check_whole(usual(), key);

  json alone = usual();
  alone["workers"]["min"] = 1;
  check_whole(alone, {"/workers/count", "workers.count", 1, million});
  for (const char* mode : {"single", "allreduce"}) {
    json without_servers = usual();
    without_servers["mode"] = mode;
    check_whole(without_servers, {"/servers/count", "servers.count", 0, million});
  }
  json epochs = usual();
  epochs.erase("steps");
  epochs["epochs"] = 3;
  check_whole(epochs, {"/epochs", "epochs", 1, million});
  // The number of steps is not known yet, since it depends on the data.
  check_whole(epochs, {"/optimizer/schedule/warmup", "optimizer.schedule.warmup", 0, steps - 1});
  check_whole(with_schedule({{"type", "step"}, {"warmup", 0}, {"every", 1}, {"factor", 0.5}}),
              {"/optimizer/schedule/every", "optimizer.schedule.every", 1, steps});
}

TEST_CASE("each real-number key of the configuration accepts the values within its bounds, and no others") {
  using namespace config_bounds;
  const double below_1 = std::nextafter(1.0, 0.0), above_1 = std::nextafter(1.0, 2.0), tiny = 1e-300;
  const json adam = with_optimizer(usual(), "adam"), adamw = with_optimizer(usual(), "adamw");
  const json linear = with_schedule({{"type", "linear"}, {"warmup", 0}, {"final", 0.5}});
  const json cosine = with_schedule({{"type", "cosine"}, {"warmup", 0}, {"final", 0.5}});
  const json decay = with_schedule({{"type", "step"}, {"warmup", 0}, {"every", 1}, {"factor", 0.5}});
  const char* const share = "from 0 to below 1";
  const std::vector<Real> keys = {
      {usual(), "/optimizer/lr", "optimizer.lr", "above 0 and at most 1e6", {tiny, 1e6}, {-1, 0, 1e6 + 1}},
      {usual(), "/optimizer/weight_decay", "optimizer.weight_decay", "from 0 to 1", {0, 1}, {-tiny, above_1}},
      {usual(), "/optimizer/momentum", "optimizer.momentum", share, {0, below_1}, {-tiny, 1}},
      {adam, "/optimizer/weight_decay", "optimizer.weight_decay", "from 0 to 1", {0, 1}, {-tiny, above_1}},
      {adam, "/optimizer/beta1", "optimizer.beta1", share, {0, below_1}, {-tiny, 1}},
      {adam, "/optimizer/beta2", "optimizer.beta2", share, {0, below_1}, {-tiny, 1}},
      {adam, "/optimizer/epsilon", "optimizer.epsilon", "from 1e-30 to 1", {1e-30, 1}, {0, 9e-31, above_1}},
      {adamw, "/optimizer/beta1", "optimizer.beta1", share, {0, below_1}, {-tiny, 1}},
      {linear,
       "/optimizer/schedule/final",
       "optimizer.schedule.final",
       "from 0 to 1",
       {0, 1},
       {-tiny, above_1}},
      {cosine,
       "/optimizer/schedule/final",
       "optimizer.schedule.final",
       "from 0 to 1",
       {0, 1},
       {-tiny, above_1}},
      {decay,
       "/optimizer/schedule/factor",
       "optimizer.schedule.factor",
       "above 0 and below 1",
       {tiny, below_1},
       {-1, 0, 1}},
  };
  for (const Real& key : keys) check_real(key);
}

TEST_CASE(
    "each word that a key of the configuration allows is read as its own value, and other words are "
    "refused") {
  using namespace config_bounds;
  const auto read = [](const char* key, const json& value) {
    json config = usual();
    config[key] = value;
    return parse_config(config.dump());
  };
  CHECK(read("mode", "single").mode == Mode::single);
  CHECK(read("mode", "ps").mode == Mode::ps);
  CHECK(read("mode", "allreduce").mode == Mode::allreduce);
  CHECK(read("precision", "float32").precision == kernels::Precision::float32);
  CHECK(read("precision", "bfloat16").precision == kernels::Precision::bfloat16);
  CHECK(read("precision", "tf32").precision == kernels::Precision::tf32);
  CHECK(refusal_of(usual(), "/precision", "float16") ==
        "configuration: precision must be \"float32\", \"bfloat16\" or \"tf32\"");
  CHECK(refusal_of(usual(), "/data/format", "csv") ==
        "configuration: data.format must be \"idx\" or \"cifar10\" for this model.type");
  const Config sync = read("consistency", "sync"), async = read("consistency", "async");
  CHECK(sync.consistency.sync);
  CHECK_FALSE(sync.consistency.staleness.has_value());
  CHECK_FALSE(async.consistency.sync);
  CHECK_FALSE(async.consistency.staleness.has_value());
  CHECK(refusal_of(usual(), "/consistency", {{"staleness", 1}, {"x", 1}}) ==
        "configuration: unknown key consistency.x");
  CHECK(refusal_of(usual(), "/consistency", json::object()) ==
        "configuration: consistency.staleness is missing");

  CHECK(parse_config(usual().dump()).optimizer.type == OptimizerType::sgd);
  CHECK_FALSE(parse_config(usual().dump()).optimizer.nesterov);
  for (const auto& [name, type] : {std::pair{"adam", OptimizerType::adam}, {"adamw", OptimizerType::adamw}}) {
    const json config = with_optimizer(usual(), name);
    CHECK(parse_config(config.dump()).optimizer.type == type);
    for (const char* key : {"lr", "weight_decay", "beta1", "beta2", "epsilon", "schedule"}) {
      json changed = config;
      changed["optimizer"].erase(key);
      CHECK(refusal(changed) == std::string("configuration: optimizer.") + key + " is missing");
    }
  }
}

TEST_CASE("each schedule accepts its own keys and refuses all other keys") {
  using namespace config_bounds;
  const auto schedule_of = [](const json& schedule) {
    return parse_config(with_schedule(schedule).dump()).optimizer.schedule;
  };
  const ScheduleConfig constant = schedule_of({{"type", "constant"}, {"warmup", 3}});
  CHECK(constant.type == ScheduleType::constant);
  CHECK(constant.warmup == 3);
  CHECK(constant.final == 0);
  CHECK(constant.every == 1);
  CHECK(constant.factor == 1);
  const ScheduleConfig linear = schedule_of({{"type", "linear"}, {"warmup", 4}, {"final", 0.25}});
  CHECK(linear.type == ScheduleType::linear);
  CHECK(linear.warmup == 4);
  CHECK(linear.final == 0.25);
  const ScheduleConfig cosine = schedule_of({{"type", "cosine"}, {"warmup", 5}, {"final", 0.75}});
  CHECK(cosine.type == ScheduleType::cosine);
  CHECK(cosine.warmup == 5);
  CHECK(cosine.final == 0.75);
  const ScheduleConfig decay =
      schedule_of({{"type", "step"}, {"warmup", 6}, {"every", 9}, {"factor", 0.125}});
  CHECK(decay.type == ScheduleType::step);
  CHECK(decay.warmup == 6);
  CHECK(decay.every == 9);
  CHECK(decay.factor == 0.125);

  const auto refused = [](const json& schedule) { return refusal(with_schedule(schedule)); };
  const std::string missing = "configuration: optimizer.schedule.", is_missing = " is missing";
  CHECK(refused({{"type", "linear"}, {"warmup", 0}}) == missing + "final" + is_missing);
  CHECK(refused({{"type", "cosine"}, {"warmup", 0}}) == missing + "final" + is_missing);
  CHECK(refused({{"type", "step"}, {"warmup", 0}, {"factor", 0.5}}) == missing + "every" + is_missing);
  CHECK(refused({{"type", "step"}, {"warmup", 0}, {"every", 1}}) == missing + "factor" + is_missing);
  CHECK(refused({{"type", "linear"}}) == missing + "warmup" + is_missing);
  CHECK(refused({{"type", "step"}, {"warmup", 0}, {"every", 1}, {"factor", 0.5}, {"final", 0}}) ==
        "configuration: unknown key optimizer.schedule.final");
  CHECK(refused({{"type", "cosine"}, {"warmup", 0}, {"final", 0}, {"every", 1}}) ==
        "configuration: unknown key optimizer.schedule.every");
  CHECK(refused({{"type", "sine"}, {"warmup", 0}}) ==
        "configuration: optimizer.schedule.type must be \"constant\", \"linear\", \"cosine\" or \"step\"");
}

TEST_CASE("a model has at most 100 hidden layers, in the given order") {
  using namespace config_bounds;
  const std::string message = "configuration: model.hidden must be a list of at most 100";
  CHECK(refusal_of(usual(), "/model/hidden", std::vector<int>(100, 2)) == "");
  CHECK(refusal_of(usual(), "/model/hidden", std::vector<int>(101, 2)) == message);
  CHECK(refusal_of(usual(), "/model/hidden", {{"0", 1}}) == message);
  json config = usual();
  config["model"]["hidden"] = {3, 1, 2};
  CHECK(parse_config(config.dump()).model.hidden == std::vector<int>{3, 1, 2});
}

TEST_CASE("each number of the optimizer is stored in its own field") {
  using namespace config_bounds;
  json config = with_optimizer(usual(), "adam");
  config["optimizer"].update(
      {{"lr", 0.1}, {"weight_decay", 0.2}, {"beta1", 0.3}, {"beta2", 0.4}, {"epsilon", 0.6}});
  const OptimizerConfig adam = parse_config(config.dump()).optimizer;
  CHECK(adam.lr == 0.1);
  CHECK(adam.weight_decay == 0.2);
  CHECK(adam.beta1 == 0.3);
  CHECK(adam.beta2 == 0.4);
  CHECK(adam.epsilon == 0.6);
  CHECK(adam.momentum == 0);
  CHECK_FALSE(adam.nesterov);
  CHECK(parse_config(usual().dump()).consistency.staleness == 4);
}

TEST_CASE("a part of the configuration that is not an object is refused, and the error names the part") {
  using namespace config_bounds;
  for (const char* key : {"model", "data", "optimizer", "workers", "servers", "checkpoint"}) {
    CHECK(refusal_of(usual(), std::string("/") + key, json::array()) ==
          std::string("configuration: ") + key + ": must be an object");
  }
  CHECK(refusal_of(usual(), "/optimizer/schedule", 1) ==
        "configuration: optimizer.schedule: must be an object");
  CHECK_THROWS_WITH_AS(parse_config("[]"), "configuration: must be an object", Failure);
}

TEST_CASE(
    "a default Config has the mode `single` and no steps, and every other member has its default value") {
  const Config config;
  CHECK(config.mode == Mode::single);
  CHECK(config.model.hidden.empty());
  CHECK(config.precision == kernels::Precision::float32);
  CHECK(config.data.batch == 0);
  CHECK(config.optimizer.type == OptimizerType::sgd);
  CHECK(config.optimizer.lr == 0);
  CHECK(config.optimizer.weight_decay == 0);
  CHECK(config.optimizer.momentum == 0);
  CHECK_FALSE(config.optimizer.nesterov);
  CHECK(config.optimizer.beta1 == 0.9);
  CHECK(config.optimizer.beta2 == 0.999);
  CHECK(config.optimizer.epsilon == 1e-8);
  CHECK(config.optimizer.schedule.type == ScheduleType::constant);
  CHECK(config.optimizer.schedule.warmup == 0);
  CHECK(config.optimizer.schedule.final == 0);
  CHECK(config.optimizer.schedule.every == 1);
  CHECK(config.optimizer.schedule.factor == 1);
  CHECK(config.consistency.sync);
  CHECK_FALSE(config.consistency.staleness.has_value());
  CHECK(config.steps == 0);
  CHECK(config.epochs == 0);
  CHECK(config.seed == 0);
  CHECK(config.report_every == 0);
  CHECK(config.evaluate_every == 0);
  CHECK(config.step_delay_ms == 0);
  CHECK(config.workers.count == 1);
  CHECK(config.workers.min == 1);
  CHECK(config.servers.count == 0);
  CHECK(config.checkpoint.every == 0);
  CHECK(config.checkpoint.keep == 1);
  CHECK(config.patience_seconds == 0);
  CHECK(config.offline_seconds == 0);
}

TEST_CASE("a configuration file of 1 MiB is read, and a longer one is refused") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "config.json";
  std::string text = config_bounds::usual().dump();
  text.resize(1 << 20, ' ');
  test::write_file(path, text);
  CHECK(load_config(path).steps == 2000);
  test::write_file(path, text + " ");
  CHECK_THROWS_WITH_AS(load_config(path), (path + ": more than 1 MiB").c_str(), Failure);
  test::write_file(path, "");
  CHECK_THROWS_WITH_AS(load_config(path), doctest::Contains((path + ": configuration: ").c_str()), Failure);
  const std::string itself = folder.path().string();
  CHECK_THROWS_WITH_AS(load_config(itself), (itself + ": cannot be read").c_str(), Failure);
}

TEST_CASE("resolve_steps() refuses epochs of more samples than an IDX file can have") {
  Config config;
  config.data.batch = 1;
  config.epochs = 1;
  resolve_steps(config, 4'294'967'295);
  CHECK(config.steps == 4'294'967'295);
  try {
    resolve_steps(config, 4'294'967'296);
    FAIL("taken");
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::bad_configuration);
    CHECK(std::string(failure.what()) == "configuration: epochs of 4294967296 samples are too long");
  }
}

}  // namespace
}  // namespace mlk::rt
