// Reads the configuration strictly: a key that is missing, unknown, of another type or out of its range is an
// error that names it, because nobody sees a wrong default in a pod.
#include "runtime/config.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/exit_code.h"

namespace mlk::rt {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& what) { throw Failure(ExitCode::bad_configuration, what); }

// One JSON object that is being read: hands out its keys, and finish() refuses those nobody asked for.
class Object {
 public:
  Object(const json& value, std::string path) : value_(value), path_(std::move(path)) {
    if (!value.is_object())
      fail("configuration: " + (path_.empty() ? "" : path_ + ": ") + "must be an object");
  }

  const json& at(const std::string& key) {
    const auto found = value_.find(key);
    if (found == value_.end()) fail("configuration: " + name(key) + " is missing");
    used_.insert(key);
    return *found;
  }

  Object object(const std::string& key) { return Object(at(key), name(key)); }

  std::uint64_t integer(const std::string& key, std::uint64_t least, std::uint64_t most) {
    return integer(at(key), name(key), least, most);
  }

  int small_integer(const std::string& key, int least, int most) {
    return static_cast<int>(
        integer(key, static_cast<std::uint64_t>(least), static_cast<std::uint64_t>(most)));
  }

  double number(const std::string& key) {
    const json& value = at(key);
    if (!value.is_number()) fail("configuration: " + name(key) + " must be a number");
    return value.get<double>();
  }

  std::string text(const std::string& key) {
    const json& value = at(key);
    if (!value.is_string()) fail("configuration: " + name(key) + " must be a string");
    return value.get<std::string>();
  }

  // For a key with one value so far: what else there may be some day must not be taken for it.
  void demand(const std::string& key, const std::string& only) {
    if (text(key) != only) fail("configuration: " + name(key) + " must be \"" + only + "\"");
  }

  std::string name(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  void finish() const {
    for (const auto& [key, value] : value_.items()) {
      if (!used_.contains(key)) fail("configuration: unknown key " + name(key));
    }
  }

  static std::uint64_t integer(const json& value, const std::string& name, std::uint64_t least,
                               std::uint64_t most) {
    // Numbers that are negative are signed in this library, others unsigned.
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least ||
        value.get<std::uint64_t>() > most) {
      fail("configuration: " + name + " must be a whole number from " + std::to_string(least) + " to " +
           std::to_string(most));
    }
    return value.get<std::uint64_t>();
  }

 private:
  const json& value_;
  std::string path_;
  std::set<std::string> used_;
};

constexpr int most_int = 1'000'000;
constexpr std::uint64_t most_steps = 1'000'000'000'000;

Mode read_mode(Object& root) {
  const std::string mode = root.text("mode");
  if (mode == "single") return Mode::single;
  if (mode == "ps") return Mode::ps;
  if (mode == "allreduce") return Mode::allreduce;
  fail("configuration: mode must be \"single\", \"ps\" or \"allreduce\"");
}

ModelConfig read_model(Object object) {
  object.demand("type", "mlp");
  ModelConfig model;
  const json& hidden = object.at("hidden");
  if (!hidden.is_array() || hidden.size() > 100)
    fail("configuration: model.hidden must be a list of at most 100");
  for (const json& width : hidden) {
    model.hidden.push_back(static_cast<int>(Object::integer(width, "model.hidden", 1, 65536)));
  }
  object.finish();
  return model;
}

DataConfig read_data(Object object) {
  object.demand("format", "idx");
  DataConfig data{object.small_integer("batch", 1, most_int)};
  object.finish();
  return data;
}

OptimizerConfig read_optimizer(Object object) {
  object.demand("type", "sgd");
  const double lr = object.number("lr"), momentum = object.number("momentum");
  if (!(lr > 0 && lr <= 1e6)) fail("configuration: optimizer.lr must be above 0 and at most 1e6");
  if (!(momentum >= 0 && momentum < 1)) fail("configuration: optimizer.momentum must be from 0 to below 1");
  object.finish();
  OptimizerConfig optimizer;
  optimizer.lr = lr;
  optimizer.momentum = momentum;
  return optimizer;
}

Consistency read_consistency(const json& value) {
  if (value == "sync") return {true, {}};
  if (value == "async") return {false, {}};
  if (!value.is_object())
    fail("configuration: consistency must be \"sync\", \"async\" or {\"staleness\": N}");
  Object object(value, "consistency");
  const int staleness = object.small_integer("staleness", 0, most_int);
  object.finish();
  return {false, staleness};
}

Config::Workers read_workers(Object object) {
  const int count = object.small_integer("count", 1, most_int);
  const Config::Workers workers{count, object.small_integer("min", 1, count)};
  object.finish();
  return workers;
}

Config::Servers read_servers(Object object, Mode mode) {
  const Config::Servers servers{object.small_integer("count", mode == Mode::ps ? 1 : 0, most_int)};
  object.finish();
  return servers;
}

Config::Checkpoint read_checkpoint(Object object) {
  const Config::Checkpoint checkpoint{object.integer("every", 0, most_steps),
                                      object.small_integer("keep", 1, most_int)};
  object.finish();
  return checkpoint;
}

}  // namespace

Config parse_config(std::string_view text) {
  json value;
  try {
    value = json::parse(text);
  } catch (const json::exception& error) {
    fail(std::string("configuration: not JSON: ") + error.what());
  }
  Object root(value, "");
  root.integer("schema", 1, 1);
  Config config;
  config.mode = read_mode(root);
  config.model = read_model(root.object("model"));
  config.data = read_data(root.object("data"));
  config.optimizer = read_optimizer(root.object("optimizer"));
  config.consistency = read_consistency(root.at("consistency"));
  config.steps = root.integer("steps", 1, most_steps);
  config.seed = root.integer("seed", 0, std::numeric_limits<std::uint64_t>::max());
  config.report_every = root.integer("report_every", 1, most_steps);
  config.evaluate_every = root.integer("evaluate_every", 0, most_steps);
  config.step_delay_ms = root.small_integer("step_delay_ms", 0, 3'600'000);
  config.workers = read_workers(root.object("workers"));
  config.servers = read_servers(root.object("servers"), config.mode);
  config.checkpoint = read_checkpoint(root.object("checkpoint"));
  config.patience_seconds = root.small_integer("patience_seconds", 1, most_int);
  root.finish();
  return config;
}

Config load_config(const std::string& path) {
  constexpr std::size_t limit = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text(limit + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open() || (file.gcount() == 0 && !file.eof())) fail(path + ": cannot be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > limit) fail(path + ": more than 1 MiB");
  try {
    return parse_config(text);
  } catch (const Failure& failure) {
    throw Failure(failure.code, path + ": " + failure.what());
  }
}

}  // namespace mlk::rt
