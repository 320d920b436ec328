// Reads the configuration strictly. A key that is missing, unknown, of the wrong type or out of range is an
// error that names the key, because a wrong default in a pod would go unnoticed.
#include "runtime/launch/config.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <stdexcept>

#include "runtime/base/exit_code.h"
#include "runtime/base/json.h"

namespace mlk::rt {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& what) { throw Failure(ExitCode::bad_configuration, what); }

// One JSON object while it is read: at() returns values by key; finish() rejects the unread keys.
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

  bool has(const std::string& key) const { return value_.contains(key); }

  Object object(const std::string& key) { return Object(at(key), name(key)); }

  std::uint64_t integer(const std::string& key, std::uint64_t least, std::uint64_t most) {
    return integer(at(key), name(key), least, most);
  }

  int small_integer(const std::string& key, int least, int most) {
    return static_cast<int>(
        integer(key, static_cast<std::uint64_t>(least), static_cast<std::uint64_t>(most)));
  }

  // A number for which `holds` is true; `range` describes those numbers in words.
  double number(const std::string& key, const std::string& range, bool (*holds)(double)) {
    const json& value = at(key);
    if (!value.is_number()) fail("configuration: " + name(key) + " must be a number");
    if (!holds(value.get<double>())) fail("configuration: " + name(key) + " must be " + range);
    return value.get<double>();
  }

  // A list of whole numbers from 1 to `most`. The list has least_size to most_size numbers; `sizes` describes
  // this in words.
  std::vector<int> list(const std::string& key, std::size_t least_size, std::size_t most_size,
                        const std::string& sizes, std::uint64_t most) {
    const json& values = at(key);
    if (!values.is_array() || values.size() < least_size || values.size() > most_size)
      fail("configuration: " + name(key) + " must be a list of " + sizes);
    std::vector<int> numbers;
    for (const json& value : values) numbers.push_back(static_cast<int>(integer(value, name(key), 1, most)));
    return numbers;
  }

  bool boolean(const std::string& key) {
    const json& value = at(key);
    if (!value.is_boolean()) fail("configuration: " + name(key) + " must be true or false");
    return value.get<bool>();
  }

  std::string text(const std::string& key) {
    const json& value = at(key);
    if (!value.is_string()) fail("configuration: " + name(key) + " must be a string");
    return value.get<std::string>();
  }

  // The index of the text among `choices`. `when`: the condition on which the choices depend.
  std::size_t choice(const std::string& key, const std::vector<std::string>& choices,
                     const std::string& when = "") {
    const auto found = std::ranges::find(choices, text(key));
    if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
    std::string expected = "\"" + choices.front() + "\"";
    for (std::size_t i = 1; i < choices.size(); ++i)
      expected += (i + 1 < choices.size() ? ", \"" : " or \"") + choices[i] + "\"";
    fail("configuration: " + name(key) + " must be " + expected + (when.empty() ? "" : " " + when));
  }

  std::string name(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  void finish() const {
    for (const auto& [key, value] : value_.items()) {
      if (!used_.contains(key)) fail("configuration: unknown key " + name(key));
    }
  }

  static std::uint64_t integer(const json& value, const std::string& name, std::uint64_t least,
                               std::uint64_t most) {
    // nlohmann::json stores negative whole numbers as signed, and all other whole numbers as unsigned.
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
constexpr int most_tokens = 1 << 24;  // of a batch; they are counted in an int
// mlk puts the addresses of at most this many servers into the seeds. A process dials no other servers, and
// would wait for ever for them.
constexpr int most_servers = 64;
constexpr std::uint64_t most_steps = 1'000'000'000'000;
constexpr std::uint64_t most_epochs = 1'000'000;

kernels::Precision read_precision(Object& root) {
  using enum kernels::Precision;
  constexpr kernels::Precision precisions[] = {float32, bfloat16, tf32};
  return precisions[root.choice("precision", {"float32", "bfloat16", "tf32"})];
}

Mode read_mode(Object& root) {
  constexpr Mode modes[] = {Mode::single, Mode::ps, Mode::allreduce};
  return modes[root.choice("mode", {"single", "ps", "allreduce"})];
}

void read_gpt(Object& object, ModelConfig& model) {
  model.layers = object.small_integer("layers", 1, 1000);
  model.width = object.small_integer("width", 1, 65536);
  model.heads = object.small_integer("heads", 1, 65536);
  model.context = object.small_integer("context", 1, 65536);
  if (model.width % model.heads != 0) {
    fail("configuration: model.width must be a multiple of model.heads, which is " +
         std::to_string(model.heads));
  }
}

ModelConfig read_model(Object object) {
  constexpr ModelType types[] = {ModelType::mlp, ModelType::cnn, ModelType::gpt};
  ModelConfig model;
  model.type = types[object.choice("type", {"mlp", "cnn", "gpt"})];
  if (model.type == ModelType::gpt) read_gpt(object, model);
  if (model.type == ModelType::cnn) model.channels = object.list("channels", 1, 16, "1 to 16", 4096);
  if (model.type != ModelType::gpt) model.hidden = object.list("hidden", 0, 100, "at most 100", 65536);
  if (object.has("dropout"))
    // The number must be below 1 even after the conversion to float.
    model.dropout = object.number("dropout", "from 0 to below 1",
                                  [](double x) { return x >= 0 && x < 1 && static_cast<float>(x) < 1; });
  object.finish();
  return model;
}

DataConfig read_data(Object object, const ModelConfig& model) {
  const bool gpt = model.type == ModelType::gpt;
  constexpr DataFormat of_gpt[] = {DataFormat::text, DataFormat::tokens},
                       of_images[] = {DataFormat::idx, DataFormat::cifar10};
  DataConfig data;
  data.format = gpt ? of_gpt[object.choice("format", {"text", "tokens"}, "for this model.type")]
                    : of_images[object.choice("format", {"idx", "cifar10"}, "for this model.type")];
  data.batch = object.small_integer("batch", 1, most_int);
  if (object.has("micro_batch")) data.micro_batch = object.small_integer("micro_batch", 1, data.batch);
  if (data.format == DataFormat::tokens) data.vocabulary = object.small_integer("vocabulary", 1, 65536);
  object.finish();
  const int together = data.micro_batch > 0 ? data.micro_batch : data.batch;
  if (gpt && together > most_tokens / model.context) {
    fail(std::string("configuration: data.") + (data.micro_batch > 0 ? "micro_batch" : "batch") +
         " times model.context must be at most " + std::to_string(most_tokens) + " tokens");
  }
  return data;
}

ScheduleConfig read_schedule(Object object, std::uint64_t steps) {
  constexpr ScheduleType types[] = {ScheduleType::constant, ScheduleType::linear, ScheduleType::cosine,
                                    ScheduleType::step};
  ScheduleConfig schedule;
  schedule.type = types[object.choice("type", {"constant", "linear", "cosine", "step"})];
  schedule.warmup = object.integer("warmup", 0, steps - 1);
  if (schedule.type == ScheduleType::linear || schedule.type == ScheduleType::cosine) {
    schedule.final = object.number("final", "from 0 to 1", [](double x) { return x >= 0 && x <= 1; });
  }
  if (schedule.type == ScheduleType::step) {
    schedule.every = object.integer("every", 1, most_steps);
    schedule.factor = object.number("factor", "above 0 and below 1", [](double x) { return x > 0 && x < 1; });
  }
  object.finish();
  return schedule;
}

// Reads only the keys of the optimizer's type: momentum with adam is an error, like any other unknown key.
OptimizerConfig read_optimizer(Object object, std::uint64_t steps) {
  constexpr OptimizerType types[] = {OptimizerType::sgd, OptimizerType::adam, OptimizerType::adamw};
  const auto share = [](double x) { return x >= 0 && x < 1; };
  OptimizerConfig optimizer;
  optimizer.type = types[object.choice("type", {"sgd", "adam", "adamw"})];
  optimizer.lr = object.number("lr", "above 0 and at most 1e6", [](double x) { return x > 0 && x <= 1e6; });
  optimizer.weight_decay =
      object.number("weight_decay", "from 0 to 1", [](double x) { return x >= 0 && x <= 1; });
  if (optimizer.type == OptimizerType::sgd) {
    optimizer.momentum = object.number("momentum", "from 0 to below 1", share);
    optimizer.nesterov = object.boolean("nesterov");
    if (optimizer.nesterov && optimizer.momentum == 0)
      fail("configuration: optimizer.nesterov needs a momentum above 0");
  } else {
    optimizer.beta1 = object.number("beta1", "from 0 to below 1", share);
    optimizer.beta2 = object.number("beta2", "from 0 to below 1", share);
    optimizer.epsilon =
        object.number("epsilon", "from 1e-30 to 1", [](double x) { return x >= 1e-30 && x <= 1; });
  }
  if (object.has("clip"))
    optimizer.clip =
        object.number("clip", "above 0 and at most 1e6", [](double x) { return x > 0 && x <= 1e6; });
  optimizer.schedule = read_schedule(object.object("schedule"), steps);
  object.finish();
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
  const bool ps = mode == Mode::ps;
  const Config::Servers servers{object.small_integer("count", ps ? 1 : 0, ps ? most_servers : most_int)};
  object.finish();
  return servers;
}

Config::Checkpoint read_checkpoint(Object object) {
  const Config::Checkpoint checkpoint{object.integer("every", 0, most_steps),
                                      object.small_integer("keep", 1, most_int)};
  object.finish();
  return checkpoint;
}

SampleConfig read_sample(Object object, const ModelConfig& model) {
  if (model.type != ModelType::gpt) fail("configuration: sample needs model.type \"gpt\"");
  const SampleConfig sample{
      object.small_integer("tokens", 1, 4096),
      object.number("temperature", "from 0 to 100", [](double x) { return x >= 0 && x <= 100; })};
  object.finish();
  return sample;
}

json parse_text(std::string_view text) {
  try {
    return parse_json(text, "configuration");
  } catch (const std::runtime_error& error) {
    fail(error.what());
  }
}

Config read_root(const json& value) {
  Object root(value, "");
  root.integer("schema", 1, 1);
  Config config;
  config.mode = read_mode(root);
  config.model = read_model(root.object("model"));
  config.precision = read_precision(root);
  config.data = read_data(root.object("data"), config.model);
  config.consistency = read_consistency(root.at("consistency"));
  if (root.has("epochs") && root.has("steps")) fail("configuration: steps and epochs exclude each other");
  if (root.has("epochs")) {
    config.epochs = root.integer("epochs", 1, most_epochs);
  } else {
    config.steps = root.integer("steps", 1, most_steps);
  }
  config.optimizer = read_optimizer(root.object("optimizer"), config.epochs > 0 ? most_steps : config.steps);
  config.seed = root.integer("seed", 0, std::numeric_limits<std::uint64_t>::max());
  config.report_every = root.integer("report_every", 1, most_steps);
  config.evaluate_every = root.integer("evaluate_every", 0, most_steps);
  if (root.has("sample")) config.sample = read_sample(root.object("sample"), config.model);
  config.step_delay_ms = root.small_integer("step_delay_ms", 0, 3'600'000);
  config.workers = read_workers(root.object("workers"));
  config.servers = read_servers(root.object("servers"), config.mode);
  config.checkpoint = read_checkpoint(root.object("checkpoint"));
  config.patience_seconds = root.small_integer("patience_seconds", 1, most_int);
  config.offline_seconds = root.small_integer("offline_seconds", 0, most_int);
  root.finish();
  return config;
}

std::string read_config_file(const std::string& path) {
  constexpr std::size_t limit = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text(limit + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open() || (file.gcount() == 0 && !file.eof())) fail(path + ": cannot be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > limit) fail(path + ": more than 1 MiB");
  return text;
}

}  // namespace

Config parse_config(std::string_view text) { return read_root(parse_text(text)); }

Config load_config(const std::string& path) { return load_config(path, json::object(), ""); }

Config load_config(const std::string& path, const json& patch, const std::string& patch_name) {
  const std::string text = read_config_file(path);
  try {
    json value = parse_text(text);
    if (value.is_object()) value.merge_patch(patch);
    return read_root(value);
  } catch (const Failure& failure) {
    const std::string whose = patch_name.empty() ? "" : ", changed by " + patch_name;
    throw Failure(failure.code, path + whose + ": " + failure.what());
  }
}

// The samples of a step are at most this many times the samples of all epochs. A larger batch was probably
// meant for other data, so resolve_steps() refuses it.
constexpr std::uint64_t most_beyond_epochs = 16;

std::uint64_t samples_of_step(const Config& config) {
  const bool together = config.mode != Mode::single && config.consistency.sync;
  return static_cast<std::uint64_t>(config.data.batch) *
         static_cast<std::uint64_t>(together ? config.workers.count : 1);
}

std::string step_beyond_data(const Config& config, std::uint64_t samples) {
  const std::uint64_t of_step = samples_of_step(config);
  return of_step <= samples ? ""
                            : "a step takes " + std::to_string(of_step) + " samples, and the data set has " +
                                  std::to_string(samples);
}

void resolve_steps(Config& config, std::uint64_t samples) {
  if (config.epochs == 0) return;
  const std::uint64_t of_step = samples_of_step(config);
  // The limit prevents an overflow of config.epochs * samples. No IDX file has more samples.
  if (samples > std::numeric_limits<std::uint32_t>::max())
    fail("configuration: epochs of " + std::to_string(samples) + " samples are too long");
  const std::uint64_t wanted = config.epochs * samples;
  if (of_step / most_beyond_epochs > wanted) {
    fail("configuration: " + std::to_string(config.epochs) + " epochs are " + std::to_string(wanted) +
         " samples, and one step takes " + std::to_string(of_step) + ": data.batch is too large");
  }
  config.steps = std::max<std::uint64_t>(1, (wanted + of_step - 1) / of_step);
  if (config.optimizer.schedule.warmup >= config.steps) {
    fail("configuration: optimizer.schedule.warmup is " + std::to_string(config.optimizer.schedule.warmup) +
         ", but " + std::to_string(config.epochs) + " epochs are " + std::to_string(config.steps) + " steps");
  }
}

}  // namespace mlk::rt
