// Suggestions for an unknown key, value or word.
#include "cli/experiment/suggest.h"

#include <doctest/doctest.h>

#include "tests/unit/experiment/loaded.h"

TEST_SUITE_BEGIN("experiment/suggest");

namespace mlk {
namespace {

std::string for_key(const std::string& written, const std::string& section = "experiment") {
  return suggest_key(written, schema_section(section), section == "experiment" ? "" : section);
}

TEST_CASE("mlk suggests its own key for a word of another tool") {
  const std::pair<std::string, std::vector<std::string>> table[] = {
      {"train.optimizer.lr", {"learning_rate", "learningrate", "learning-rate", "Learning_Rate"}},
      {"train.data.batch", {"batch_size", "batchsize", "batch-size", "minibatch"}},
      {"train.steps", {"num_steps", "max_steps", "total_steps", "iterations", "iters"}},
      {"workers.count' or 'servers.count",
       {"replicas", "num_workers", "nproc", "nodes", "num_nodes", "instances", "size"}},
      {"workers.gpu' or 'servers.gpu", {"gpus", "num_gpus", "nvidia.com/gpu", "accelerators"}},
      {"workers.cpu' or 'servers.cpu", {"cpus", "num_cpus"}},
      {"workers.memory' or 'servers.memory", {"mem", "ram"}},
      {"run", {"command", "cmd", "entrypoint", "script", "program", "exec", "CMD"}},
      {"env", {"environment", "envs", "variables"}},
      {"data", {"volumes", "mounts", "datasets"}},
      {"image", {"container", "docker_image"}},
      {"workdir", {"cwd", "working_dir", "workingDir"}},
      {"train.optimizer", {"optim", "solver"}},
      {"train.data.micro_batch", {"micro_batch_size", "gradient_accumulation_steps"}},
      {"train.model.hidden", {"hidden_sizes", "hidden_layers"}},
      {"train.model.channels", {"filters", "num_filters"}},
      {"train.model.layers", {"n_layer", "num_layers"}},
      {"train.model.width", {"n_embd", "hidden_size"}},
      {"train.model.heads", {"n_head", "num_heads"}},
      {"train.model.context", {"block_size", "seq_len"}},
      {"train.data.vocabulary", {"vocab_size"}},
      {"train.optimizer.clip", {"grad_clip", "max_grad_norm"}},
      {"train.optimizer.weight_decay", {"decay", "l2"}},
      {"time_limit", {"timeout", "walltime", "max_time", "activeDeadlineSeconds"}},
      {"restart.retries", {"max_restarts", "max_retries", "backoffLimit", "retry"}},
      {"tags", {"labels"}},
      {"note", {"description", "comment"}},
      {"mode", {"kind", "job_type", "strategy"}},
      {"train.seed", {"random_seed"}},
      {"scheduling.node.selector", {"node_selector", "nodeSelector"}},
      {"checkpoint", {"checkpoints", "checkpointing"}},
  };
  for (const auto& [key, words] : table) {
    for (const std::string& word : words)
      CHECK_MESSAGE(for_key(word) == "; did you mean '" + key + "'?", word);
  }
}

TEST_CASE("a key of the same section is suggested, or else a key of another section") {
  CHECK(for_key("LR", "optimizer") == "; did you mean 'lr'?");
  CHECK(for_key("size", "role") == "; did you mean 'count'?");
  CHECK(for_key("steps", "optimizer") == "; did you mean 'train.steps'?");
  CHECK(for_key("tags", "train") == "; did you mean 'tags' of the file itself, outside of train?");
  CHECK(for_key("imag") == "; did you mean 'image'?");
  // Too many sections have a `type` for a suggestion.
  CHECK(for_key("type") == "");
  CHECK(for_key("path") == "; did you mean 'train.data.path' or 'checkpoint.volume.nfs.path'?");
  CHECK(for_key("sweeping") == "");
  CHECK(for_key("a b") == "");
  CHECK(for_key("num_steps max_steps") == "");
}

TEST_CASE("the advice lists all keys of a small section if none of them is similar to the written key") {
  CHECK(for_key("zzzzzzzz", "patch") == "; it has pod, job, service");
  CHECK(for_key("zzzzzzzz", "schedule") == "; it has type, warmup, final, every, factor");
  CHECK(for_key("zzzzzzzz", "csi") == "; it has driver, fsType, volumeAttributes");
  CHECK(for_key("zzzzzzzz", "optimizer") == "");
  CHECK(for_key("zzzzzzzz", "role") == "");
  CHECK(for_key("queue_of_jobs", "scheduling") == "; it has gang, queue, priority, node");
}

TEST_CASE("the main key of a section is suggested for a scalar in the place of the section") {
  const auto value = [](const std::string& text) { return parse_yaml(text, "f"); };
  CHECK(suggest_section(value("3"), "role", "workers") == "; write workers: {count: 3}");
  CHECK(suggest_section(value("3"), "role", "roles.worker") == "; write worker: {count: 3}");
  CHECK(suggest_section(value("many"), "role", "workers") == "");
  CHECK(suggest_section(value("adam"), "optimizer", "train.optimizer") == "; write optimizer: {type: adam}");
  CHECK(suggest_section(value("cosine"), "schedule", "train.optimizer.schedule") ==
        "; write schedule: {type: cosine}");
  CHECK(suggest_section(value("mlp"), "model", "train.model") == "; write model: {type: mlp}");
  CHECK(suggest_section(value("/d"), "train.data", "train.data") == "; write data: {path: /d}");
  CHECK(suggest_section(value("3"), "optimizer", "train.optimizer") == "");
  CHECK(suggest_section(value("x"), "restart", "restart") == "");
  CHECK(suggest_section(value("[a]"), "model", "train.model") == "");
}

TEST_CASE("mlk suggests a choice that is similar to the written word") {
  CHECK(suggest_choice("ADAM", "sgd|adam|adamw") == "; did you mean 'adam'?");
  CHECK(suggest_choice("cosin", "constant|linear|cosine|step") == "; did you mean 'cosine'?");
  CHECK(suggest_choice("something", "sgd|adam|adamw") == "");
}

}  // namespace
}  // namespace mlk
