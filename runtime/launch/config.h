// The configuration of a run, typed: the JSON object of CONTRACT.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "kernels/ops.h"

namespace mlk::rt {

enum class Mode { single, ps, allreduce };

enum class ModelType { mlp, cnn, gpt };

struct ModelConfig {
  ModelType type = ModelType::mlp;
  std::vector<int> hidden = {};    // mlp, cnn: widths of the hidden layers; may be empty
  std::vector<int> channels = {};  // cnn: of each convolution; not empty
  // gpt: number of blocks; width of a token's vector, which the heads share evenly; tokens of a sequence
  int layers = 0, width = 0, heads = 0, context = 0;
  double dropout = 0;  // the probability with which training drops an activation
};

enum class DataFormat { idx, cifar10, text, tokens };

struct DataConfig {
  int batch = 0;  // samples per worker and step
  DataFormat format = DataFormat::idx;
  int vocabulary = 0;   // for the format tokens: every token is below it
  int micro_batch = 0;  // the most samples whose gradients are computed together; 0: the whole batch
};

enum class ScheduleType { constant, linear, cosine, step };

// How the learning rate changes; see schedule.h.
struct ScheduleConfig {
  ScheduleType type = ScheduleType::constant;
  std::uint64_t warmup = 0;  // steps
  double final = 0;          // types linear, cosine: the fraction of lr that is left at the end
  std::uint64_t every = 1;   // type step: the number of steps from one decay to the next
  double factor = 1;         // type step: the factor of a decay
};

enum class OptimizerType { sgd, adam, adamw };

struct OptimizerConfig {
  OptimizerType type = OptimizerType::sgd;
  double lr = 0;
  // d in "gradient += d * weight" (sgd, adam), or in "weight -= lr * d * weight" (adamw).
  double weight_decay = 0;
  double momentum = 0;                                // sgd
  bool nesterov = false;                              // sgd
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // adam, adamw
  double clip = 0;                                    // the largest norm of a gradient; 0: no limit
  ScheduleConfig schedule = {};
};

// How far the workers of a parameter server may drift apart. With sync, all workers are at the same step.
// Otherwise the fastest worker may be at most `staleness` steps ahead of the slowest. If `staleness` has no
// value, there is no limit.
struct Consistency {
  bool sync = true;
  std::optional<int> staleness;
};

// The text that a trained gpt generates as a sample; see sampling.h.
struct SampleConfig {
  int tokens = 0;          // 0: no sample
  double temperature = 1;  // divides the logits; 0: always the likeliest token
};

struct Config {
  Mode mode = Mode::single;
  ModelConfig model;
  kernels::Precision precision = kernels::Precision::float32;  // of the model's products
  DataConfig data;
  OptimizerConfig optimizer;
  Consistency consistency;
  std::uint64_t steps = 0;   // updates of the whole run; 0: given by `epochs`, see resolve_steps()
  std::uint64_t epochs = 0;  // passes over the training samples; 0: given by `steps`
  std::uint64_t seed = 0;
  std::uint64_t report_every = 0;    // steps, at least 1
  std::uint64_t evaluate_every = 0;  // steps; 0: only at the end
  SampleConfig sample;
  int step_delay_ms = 0;
  struct Workers {
    int count = 1, min = 1;
  } workers;
  struct Servers {
    int count = 0;
  } servers;
  struct Checkpoint {
    std::uint64_t every = 0;  // steps; 0: only on SIGTERM and at the end
    int keep = 1;
  } checkpoint;
  int patience_seconds = 0;
  int offline_seconds = 0;  // ps: how long workers continue alone while a server is lost
};

// Strict: all keys that are not optional must be present, every value must have its type and be in its range,
// and no other key may be there. Throws Failure{bad_configuration} that names the key.
Config parse_config(std::string_view text);

// Reads a file of at most 1 MiB as parse_config() reads a text. Error messages name the file.
Config load_config(const std::string& path);

// Applies a merge patch (RFC 7386) to the content of the file before the checks. Error messages call the
// patch `patch_name`: "trial 7".
Config load_config(const std::string& path, const nlohmann::json& patch, const std::string& patch_name);

// The number of samples that one update of the run uses.
std::uint64_t samples_of_step(const Config& config);

// "a step takes 200000 samples, and the data set has 1500"; empty if the data set is large enough. Pure.
std::string step_beyond_data(const Config& config, std::uint64_t samples);

// If `epochs` is set, computes `steps` from the number of samples, and rounds up. Throws
// Failure{bad_configuration} if the warmup is not shorter than the run, if one step takes more than 16 times
// the samples of all epochs, or if `samples` is above 2^32 - 1.
void resolve_steps(Config& config, std::uint64_t samples);

}  // namespace mlk::rt
