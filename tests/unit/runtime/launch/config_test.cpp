#include "runtime/launch/config.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/base/exit_code.h"
#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/launch/config");

using namespace mlk::rt;
using nlohmann::json;

namespace {

const json contract_example = json::parse(R"({
  "schema": 1, "mode": "ps", "model": {"type": "mlp", "hidden": [128, 64]},
  "precision": "bfloat16", "data": {"format": "idx", "batch": 64},
  "optimizer": {"type": "sgd", "lr": 0.01, "momentum": 0.9, "nesterov": true, "weight_decay": 0.1,
                "schedule": {"type": "constant", "warmup": 7}}, "consistency": "async", "steps": 2000, "seed": 1,
  "report_every": 50, "evaluate_every": 500, "step_delay_ms": 3, "workers": {"count": 5, "min": 2},
  "servers": {"count": 1}, "checkpoint": {"every": 100, "keep": 3}, "patience_seconds": 900,
  "offline_seconds": 60})");

// The error message for the example with the value at `pointer` replaced.
std::string message_for(const std::string& pointer, const json& value) {
  json changed = contract_example;
  changed[json::json_pointer(pointer)] = value;
  try {
    parse_config(changed.dump());
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::bad_configuration);
    return failure.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a configuration with the keys of the example in CONTRACT.md is read completely") {
  const Config config = parse_config(contract_example.dump());
  CHECK(config.mode == Mode::ps);
  CHECK(config.model.hidden == std::vector<int>{128, 64});
  CHECK(config.precision == mlk::kernels::Precision::bfloat16);
  CHECK(config.data.batch == 64);
  CHECK(config.optimizer.lr == 0.01);
  CHECK(config.optimizer.momentum == 0.9);
  CHECK(config.optimizer.nesterov);
  CHECK(config.optimizer.weight_decay == 0.1);
  CHECK(config.optimizer.schedule.type == ScheduleType::constant);
  CHECK(config.optimizer.schedule.warmup == 7);
  CHECK_FALSE(config.consistency.sync);
  CHECK_FALSE(config.consistency.staleness.has_value());
  CHECK(config.steps == 2000);
  CHECK(config.seed == 1);
  CHECK(config.report_every == 50);
  CHECK(config.evaluate_every == 500);
  CHECK(config.step_delay_ms == 3);
  CHECK(config.workers.count == 5);
  CHECK(config.workers.min == 2);
  CHECK(config.servers.count == 1);
  CHECK(config.checkpoint.every == 100);
  CHECK(config.checkpoint.keep == 3);
  CHECK(config.patience_seconds == 900);
  CHECK(config.offline_seconds == 60);
}

TEST_CASE("load_config() applies a merge patch before it checks the configuration") {
  const mlk::test::TemporaryFolder folder;
  const std::string path = folder / "config.json";
  mlk::test::write_file(path, contract_example.dump());
  const json patch = json::parse(R"({"seed": 9, "optimizer": {
      "type": "adam", "momentum": null, "nesterov": null, "beta1": 0.5, "beta2": 0.75, "epsilon": 0.125}})");
  const Config config = load_config(path, patch, "trial 7");
  CHECK(config.optimizer.type == OptimizerType::adam);
  CHECK(config.optimizer.beta2 == 0.75);
  CHECK(config.optimizer.lr == 0.01);
  CHECK(config.seed == 9);
  CHECK(config.steps == 2000);
  CHECK(load_config(path).seed == 1);
  const auto said = [&](const json& wrong) {
    try {
      load_config(path, wrong, "trial 7");
      return std::string("accepted");
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::bad_configuration);
      return std::string(failure.what());
    }
  };
  CHECK(said({{"optimizer", {{"lr", -1}}}}) ==
        path + ", changed by trial 7: configuration: optimizer.lr must be above 0 and at most 1e6");
  CHECK(said({{"sead", 1}}) == path + ", changed by trial 7: configuration: unknown key sead");
  CHECK(said({{"steps", nullptr}}) == path + ", changed by trial 7: configuration: steps is missing");
  mlk::test::write_file(path, "[]");
  CHECK(said({{"seed", 1}}) == path + ", changed by trial 7: configuration: must be an object");
}

TEST_CASE("`adam`, `adamw` and the schedules `cosine` and `step` have their own keys") {
  json changed = contract_example;
  changed["optimizer"] = {{"type", "adamw"},
                          {"lr", 0.001},
                          {"beta1", 0.8},
                          {"beta2", 0.99},
                          {"epsilon", 1e-7},
                          {"weight_decay", 0.05},
                          {"schedule", {{"type", "cosine"}, {"warmup", 1999}, {"final", 0.25}}}};
  const OptimizerConfig read = parse_config(changed.dump()).optimizer;
  CHECK(read.type == OptimizerType::adamw);
  CHECK(read.beta1 == 0.8);
  CHECK(read.beta2 == 0.99);
  CHECK(read.epsilon == 1e-7);
  CHECK(read.weight_decay == 0.05);
  CHECK(read.schedule.type == ScheduleType::cosine);
  CHECK(read.schedule.warmup == 1999);
  CHECK(read.schedule.final == 0.25);
  changed["optimizer"]["type"] = "adam";
  changed["optimizer"]["schedule"] = {{"type", "step"}, {"warmup", 0}, {"every", 10}, {"factor", 0.5}};
  CHECK(parse_config(changed.dump()).optimizer.schedule.every == 10);
  CHECK(parse_config(changed.dump()).optimizer.schedule.factor == 0.5);
  changed["optimizer"]["momentum"] = 0.9;
  CHECK_THROWS_WITH_AS(parse_config(changed.dump()), "configuration: unknown key optimizer.momentum",
                       Failure);
}

TEST_CASE("optimizers and schedules with invalid values are refused") {
  CHECK(message_for("/optimizer/type", "adan") ==
        "configuration: optimizer.type must be \"sgd\", \"adam\" or \"adamw\"");
  CHECK(message_for("/optimizer/type", "adam") == "configuration: optimizer.beta1 is missing");
  CHECK(message_for("/optimizer/nesterov", 1) == "configuration: optimizer.nesterov must be true or false");
  CHECK(message_for("/optimizer/momentum", 0) ==
        "configuration: optimizer.nesterov needs a momentum above 0");
  CHECK(message_for("/optimizer/weight_decay", 1.5) ==
        "configuration: optimizer.weight_decay must be from 0 to 1");
  CHECK(message_for("/optimizer/schedule/warmup", 2000) ==
        "configuration: optimizer.schedule.warmup must be a whole number from 0 to 1999");
  CHECK(message_for("/optimizer/schedule/final", 0) == "configuration: unknown key optimizer.schedule.final");
  CHECK(message_for("/optimizer/schedule", {{"type", "cosine"}, {"warmup", 0}, {"final", 2}}) ==
        "configuration: optimizer.schedule.final must be from 0 to 1");
  CHECK(message_for("/optimizer/schedule", {{"type", "step"}, {"warmup", 0}, {"every", 1}, {"factor", 1}}) ==
        "configuration: optimizer.schedule.factor must be above 0 and below 1");
}

TEST_CASE("`consistency` may be `sync`, `async` or a bound of staleness") {
  json changed = contract_example;
  changed["consistency"] = "sync";
  CHECK(parse_config(changed.dump()).consistency.sync);
  changed["consistency"] = {{"staleness", 4}};
  CHECK_FALSE(parse_config(changed.dump()).consistency.sync);
  CHECK(parse_config(changed.dump()).consistency.staleness == 4);
  CHECK(message_for("/consistency", "eventual") ==
        "configuration: consistency must be \"sync\", \"async\" or {\"staleness\": N}");
  CHECK(message_for("/consistency", {{"staleness", -1}}) ==
        "configuration: consistency.staleness must be a whole number from 0 to 1000000");
}

TEST_CASE("a GPT has its own keys, and its data are a text or tokens") {
  json config = contract_example;
  config["model"] = {{"type", "gpt"}, {"layers", 2}, {"width", 64}, {"heads", 4}, {"context", 128}};
  config["data"] = {{"format", "text"}, {"batch", 8}};
  const auto message = [&](const char* pointer, const json& value) -> std::string {
    json changed = config;
    changed[json::json_pointer(pointer)] = value;
    try {
      parse_config(changed.dump());
      return "accepted";
    } catch (const Failure& failure) {
      return failure.what();
    }
  };
  const Config parsed = parse_config(config.dump());
  CHECK(parsed.model.type == ModelType::gpt);
  CHECK(parsed.model.layers == 2);
  CHECK(parsed.model.width == 64);
  CHECK(parsed.model.heads == 4);
  CHECK(parsed.model.context == 128);
  CHECK(parsed.data.format == DataFormat::text);
  CHECK(message("/model/hidden", {8}) == "configuration: unknown key model.hidden");
  CHECK(message("/model/heads", 3) ==
        "configuration: model.width must be a multiple of model.heads, which is 3");
  CHECK(message("/model/layers", 0) == "configuration: model.layers must be a whole number from 1 to 1000");
  CHECK(message("/data/format", "idx") ==
        "configuration: data.format must be \"text\" or \"tokens\" for this model.type");
  CHECK(message("/data/vocabulary", 10) == "configuration: unknown key data.vocabulary");
  CHECK(message("/data/format", "tokens") == "configuration: data.vocabulary is missing");
  CHECK(message("/data/batch", (1 << 24) / 128) == "accepted");
  CHECK(message("/data/batch", (1 << 24) / 128 + 1) ==
        "configuration: data.batch times model.context must be at most 16777216 tokens");
  CHECK(message_for("/data/format", "text") ==
        "configuration: data.format must be \"idx\" or \"cifar10\" for this model.type");
  config["data"] = {{"format", "tokens"}, {"vocabulary", 50257}, {"batch", 8}};
  CHECK(parse_config(config.dump()).data.vocabulary == 50257);
  CHECK(message("/data/vocabulary", 65537) ==
        "configuration: data.vocabulary must be a whole number from 1 to 65536");
}

TEST_CASE("a cnn has a list of the channels of its 1 to 16 convolutions, and a list of hidden layers") {
  json config = contract_example;
  config["model"] = {{"type", "cnn"}, {"channels", {8, 16}}, {"hidden", {32}}};
  config["data"]["format"] = "cifar10";
  const Config parsed = parse_config(config.dump());
  CHECK(parsed.model.type == ModelType::cnn);
  CHECK(parsed.model.channels == std::vector<int>{8, 16});
  CHECK(parsed.model.hidden == std::vector<int>{32});
  CHECK(parsed.data.format == DataFormat::cifar10);
  for (const json& bad : {json(8), json::array(), json(std::vector<int>(17, 1))}) {
    config["model"]["channels"] = bad;
    CHECK_THROWS_WITH_AS(parse_config(config.dump()),
                         "configuration: model.channels must be a list of 1 to 16", Failure);
  }
  config["model"]["channels"] = {4097};
  CHECK_THROWS_WITH_AS(parse_config(config.dump()),
                       "configuration: model.channels must be a whole number from 1 to 4096", Failure);
}

TEST_CASE("a micro-batch may be left out, and is at most the batch") {
  CHECK(parse_config(contract_example.dump()).data.micro_batch == 0);
  json config = contract_example;
  config["data"]["micro_batch"] = 8;
  CHECK(parse_config(config.dump()).data.micro_batch == 8);
  const std::string refusal = "configuration: data.micro_batch must be a whole number from 1 to 64";
  REQUIRE(contract_example["data"]["batch"] == 64);
  CHECK(message_for("/data/micro_batch", 0) == refusal);
  CHECK(message_for("/data/micro_batch", 65) == refusal);
  config["model"] = {{"type", "gpt"}, {"layers", 1}, {"width", 4}, {"heads", 1}, {"context", 65536}};
  config["data"] = {{"format", "text"}, {"batch", 1000}, {"micro_batch", 256}};
  CHECK(parse_config(config.dump()).data.batch == 1000);
  config["data"]["micro_batch"] = 257;
  CHECK_THROWS_WITH_AS(parse_config(config.dump()),
                       "configuration: data.micro_batch times model.context must be at most 16777216 tokens",
                       Failure);
}

TEST_CASE("dropout is off unless the configuration sets it") {
  CHECK(parse_config(contract_example.dump()).model.dropout == 0);
  json config = contract_example;
  config["model"]["dropout"] = 0.25;
  CHECK(parse_config(config.dump()).model.dropout == 0.25);
  for (const json& bad : {json(1), json(-0.1), json(0.99999999)})
    CHECK(message_for("/model/dropout", bad) == "configuration: model.dropout must be from 0 to below 1");
  CHECK(message_for("/model/dropout", "0") == "configuration: model.dropout must be a number");
}

TEST_CASE("a sample may be requested from a gpt, and from no other model") {
  CHECK(parse_config(contract_example.dump()).sample.tokens == 0);
  json config = contract_example;
  config["sample"] = {{"tokens", 20}, {"temperature", 0.8}};
  CHECK_THROWS_WITH_AS(parse_config(config.dump()), "configuration: sample needs model.type \"gpt\"",
                       Failure);
  config["model"] = {{"type", "gpt"}, {"layers", 1}, {"width", 4}, {"heads", 1}, {"context", 8}};
  config["data"]["format"] = "text";
  CHECK(parse_config(config.dump()).sample.tokens == 20);
  CHECK(parse_config(config.dump()).sample.temperature == 0.8);
  config["sample"]["temperature"] = -0.1;
  CHECK_THROWS_WITH_AS(parse_config(config.dump()), "configuration: sample.temperature must be from 0 to 100",
                       Failure);
  config["sample"] = {{"tokens", 4097}, {"temperature", 1}};
  CHECK_THROWS_WITH_AS(parse_config(config.dump()),
                       "configuration: sample.tokens must be a whole number from 1 to 4096", Failure);
  config["sample"] = {{"tokens", 1}};
  CHECK_THROWS_WITH_AS(parse_config(config.dump()), "configuration: sample.temperature is missing", Failure);
}

TEST_CASE("clipping of gradients is off unless the configuration sets `clip`") {
  CHECK(parse_config(contract_example.dump()).optimizer.clip == 0);
  json config = contract_example;
  config["optimizer"]["clip"] = 0.5;
  CHECK(parse_config(config.dump()).optimizer.clip == 0.5);
  CHECK(message_for("/optimizer/clip", 0) == "configuration: optimizer.clip must be above 0 and at most 1e6");
  CHECK(message_for("/optimizer/clip", "1") == "configuration: optimizer.clip must be a number");
}

TEST_CASE("every key of the example in CONTRACT.md is required") {
  for (const auto& [key, value] : contract_example.items()) {
    json changed = contract_example;
    changed.erase(key);
    CAPTURE(key);
    CHECK_THROWS_WITH_AS(parse_config(changed.dump()), ("configuration: " + key + " is missing").c_str(),
                         Failure);
    if (!value.is_object()) continue;
    for (const auto& [inner, unused] : value.items()) {
      changed = contract_example;
      changed[key].erase(inner);
      CHECK_THROWS_WITH_AS(parse_config(changed.dump()),
                           ("configuration: " + key + "." + inner + " is missing").c_str(), Failure);
    }
  }
}

TEST_CASE("an unknown key at any level is refused, and the error names the key") {
  CHECK(message_for("/stepz", 1) == "configuration: unknown key stepz");
  for (const auto& [key, value] : contract_example.items()) {
    if (value.is_object())
      CHECK(message_for("/" + key + "/x", 1) == "configuration: unknown key " + key + ".x");
  }
}

TEST_CASE("wrong types and values out of range are refused, and the error names the key") {
  CHECK(message_for("/schema", 2) == "configuration: schema must be a whole number from 1 to 1");
  CHECK(message_for("/mode", "tree") == "configuration: mode must be \"single\", \"ps\" or \"allreduce\"");
  CHECK(message_for("/mode", 1) == "configuration: mode must be a string");
  CHECK(message_for("/model", 1) == "configuration: model: must be an object");
  CHECK(message_for("/model/type", "rnn") == "configuration: model.type must be \"mlp\", \"cnn\" or \"gpt\"");
  CHECK(message_for("/model/hidden", 5) == "configuration: model.hidden must be a list of at most 100");
  CHECK(message_for("/model/hidden", {0}) ==
        "configuration: model.hidden must be a whole number from 1 to 65536");
  CHECK(message_for("/model/hidden", json::array()) == "accepted");
  CHECK(message_for("/data/batch", 0) ==
        "configuration: data.batch must be a whole number from 1 to 1000000");
  CHECK(message_for("/data/batch", 1.5) ==
        "configuration: data.batch must be a whole number from 1 to 1000000");
  CHECK(message_for("/data/batch", "64") ==
        "configuration: data.batch must be a whole number from 1 to 1000000");
  CHECK(message_for("/optimizer/lr", 0) == "configuration: optimizer.lr must be above 0 and at most 1e6");
  CHECK(message_for("/optimizer/lr", "fast") == "configuration: optimizer.lr must be a number");
  CHECK(message_for("/optimizer/momentum", 1) ==
        "configuration: optimizer.momentum must be from 0 to below 1");
  CHECK(message_for("/steps", -5) == "configuration: steps must be a whole number from 1 to 1000000000000");
  CHECK(message_for("/seed", UINT64_MAX) == "accepted");
  CHECK(message_for("/report_every", 0) ==
        "configuration: report_every must be a whole number from 1 to 1000000000000");
  CHECK(message_for("/evaluate_every", 0) == "accepted");
  CHECK(message_for("/workers/min", 6) == "configuration: workers.min must be a whole number from 1 to 5");
  CHECK(message_for("/servers/count", 0) ==
        "configuration: servers.count must be a whole number from 1 to 64");
  CHECK(message_for("/servers/count", 64) == "accepted");
  CHECK(message_for("/servers/count", 65) ==
        "configuration: servers.count must be a whole number from 1 to 64");
  CHECK(message_for("/checkpoint/keep", 0) ==
        "configuration: checkpoint.keep must be a whole number from 1 to 1000000");
  CHECK(message_for("/patience_seconds", 0) ==
        "configuration: patience_seconds must be a whole number from 1 to 1000000");
}

TEST_CASE("the length of a run is given by steps or by epochs, and not by both") {
  json changed = contract_example;
  changed["epochs"] = 3;
  CHECK_THROWS_WITH_AS(parse_config(changed.dump()), "configuration: steps and epochs exclude each other",
                       Failure);
  changed.erase("steps");
  CHECK(parse_config(changed.dump()).steps == 0);
  CHECK(parse_config(changed.dump()).epochs == 3);
  changed.erase("epochs");
  CHECK_THROWS_WITH_AS(parse_config(changed.dump()), "configuration: steps is missing", Failure);
  for (const std::uint64_t wrong : {0ul, 1'000'001ul}) {
    changed["epochs"] = wrong;
    CHECK_THROWS_AS(parse_config(changed.dump()), Failure);
  }
}

TEST_CASE("resolve_steps() divides the samples of all epochs by those of a step, and rounds up") {
  const auto steps = [](Mode mode, bool sync, std::uint64_t epochs, std::uint64_t samples) {
    Config config;
    config.mode = mode;
    config.consistency.sync = sync;
    config.workers.count = 4;
    config.data.batch = 10;
    config.epochs = epochs;
    resolve_steps(config, samples);
    return config.steps;
  };
  CHECK(steps(Mode::allreduce, true, 1, 40) == 1);  // all workers together take a batch each in one step
  CHECK(steps(Mode::allreduce, true, 3, 41) == 4);  // 123 samples, 40 per step
  CHECK(steps(Mode::ps, true, 3, 41) == 4);
  CHECK(steps(Mode::ps, false, 3, 41) == 13);  // each update takes a batch
  CHECK(steps(Mode::single, true, 3, 41) == 13);
  CHECK(steps(Mode::single, true, 1, 1) == 1);
  CHECK(steps(Mode::single, true, 1'000'000, 4'294'967'295) == 429'496'729'500'000);
}

TEST_CASE("resolve_steps() refuses a warmup that is as long as the epochs or longer") {
  Config config;
  config.data.batch = 10;
  config.epochs = 2;
  config.optimizer.schedule.warmup = 20;
  CHECK_THROWS_WITH_AS(resolve_steps(config, 100),
                       "configuration: optimizer.schedule.warmup is 20, but 2 epochs are 20 steps", Failure);
  CHECK_NOTHROW(resolve_steps(config, 101));
  config.epochs = 0;
  config.steps = 7;
  resolve_steps(config, 1000);
  CHECK(config.steps == 7);
}

TEST_CASE("the mode `allreduce` accepts a configuration without servers") {
  json changed = contract_example;
  changed["mode"] = "allreduce";
  changed["servers"]["count"] = 0;
  CHECK(parse_config(changed.dump()).servers.count == 0);
}

TEST_CASE("text that is not a JSON object, or is nested too deeply, is refused") {
  for (const char* text : {"", "{", "[]", "1", "nan", "{\"schema\":1}}", "\xff\xfe"}) {
    CHECK_THROWS_AS(parse_config(text), Failure);
  }
  // Deep nesting must not exhaust the stack.
  CHECK_THROWS_AS(parse_config(std::string(500'000, '[')), Failure);
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  CHECK_THROWS_WITH_AS(parse_config(deep), "configuration: nested deeper than 32", Failure);
}

TEST_CASE("a configuration file that cannot be used is named in the error") {
  mlk::test::TemporaryFolder folder;
  const std::string path = folder / "config.json";
  const auto message = [&] {
    try {
      load_config(path);
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::bad_configuration);
      return std::string(failure.what());
    }
    return std::string("accepted");
  };
  CHECK(message() == path + ": cannot be read");
  mlk::test::write_file(path, std::string((1 << 20) + 1, ' '));
  CHECK(message() == path + ": more than 1 MiB");
  mlk::test::write_file(path, "{}");
  CHECK(message() == path + ": configuration: schema is missing");
  mlk::test::write_file(path, contract_example.dump());
  CHECK(message() == "accepted");
  CHECK_THROWS_AS(load_config(folder.path().string()), Failure);
}

TEST_CASE(
    "step_beyond_data() reports a step with more samples than the data set; resolve_steps() refuses a step "
    "of more than 16 times the samples of all epochs") {
  Config config;
  config.data.batch = 50;
  config.workers.count = 4;
  CHECK(step_beyond_data(config, 50).empty());
  CHECK(step_beyond_data(config, 49) == "a step takes 50 samples, and the data set has 49");
  config.mode = Mode::ps;
  CHECK(step_beyond_data(config, 200).empty());
  CHECK(step_beyond_data(config, 199) == "a step takes 200 samples, and the data set has 199");
  config.consistency.sync = false;
  CHECK(step_beyond_data(config, 50).empty());
  config.mode = Mode::single;
  config.epochs = 2;
  config.data.batch = 100'000;
  CHECK_THROWS_WITH_AS(
      resolve_steps(config, 1500),
      "configuration: 2 epochs are 3000 samples, and one step takes 100000: data.batch is too large",
      Failure);
  config.data.batch = 16 * 3000 + 15;
  CHECK_NOTHROW(resolve_steps(config, 1500));
  config.data.batch = 16 * 3000 + 16;
  CHECK_THROWS_AS(resolve_steps(config, 1500), Failure);
}
