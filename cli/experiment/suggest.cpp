#include "cli/experiment/suggest.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/util/text.h"

namespace mlk {
namespace {

struct Synonym {
  std::string_view words;  // separated by blanks
  std::string_view key;
};

// Words of other tools, and mlk's names for them.
constexpr Synonym synonyms[] = {
    {" learning_rate learningrate learning-rate ", "lr"},
    {" batch_size batchsize batch-size minibatch ", "batch"},
    {" micro_batch_size micro_batch_size_per_gpu gradient_accumulation_steps accumulate_grad_batches ",
     "micro_batch"},
    {" num_steps max_steps total_steps iterations iters ", "steps"},
    {" replicas num_workers nproc nodes num_nodes instances size ", "count"},
    {" gpus num_gpus nvidia.com/gpu accelerators ", "gpu"},
    {" cpus num_cpus ", "cpu"},
    {" mem ram ", "memory"},
    {" command cmd entrypoint script program exec ", "run"},
    {" arguments argv program_args params hyperparameters ", "args"},
    {" environment envs variables ", "env"},
    {" volumes mounts datasets ", "data"},
    {" container docker_image ", "image"},
    {" workdir cwd working_dir workingdir ", "workdir"},
    {" optim solver ", "optimizer"},
    {" hidden_sizes hidden_layers ", "hidden"},
    {" filters conv_channels num_filters ", "channels"},
    {" n_layer n_layers num_layers num_hidden_layers ", "layers"},
    {" n_embd d_model hidden_size embedding_size ", "width"},
    {" n_head n_heads num_heads num_attention_heads ", "heads"},
    {" block_size n_ctx n_positions seq_len sequence_length max_length ", "context"},
    {" vocab_size vocab ", "vocabulary"},
    {" grad_clip clip_grad clip_norm max_grad_norm gradient_clip_val ", "clip"},
    {" decay l2 ", "weight_decay"},
    {" timeout walltime max_time activedeadlineseconds ", "time_limit"},
    {" max_restarts max_retries backofflimit retry ", "retries"},
    {" labels ", "tags"},
    {" description comment ", "note"},
    {" kind job_type strategy ", "mode"},
    {" random_seed ", "seed"},
    {" node_selector nodeselector ", "selector"},
    {" checkpoints checkpointing ", "checkpoint"},
    {" output output_dir out_dir artifacts artifact results file_mounts ", "outputs"},
};

std::string our_word(const std::string& written) {
  const std::string word = lower_case(written);
  for (const Synonym& synonym : synonyms) {
    if (word.find(' ') == std::string::npos && synonym.words.find(" " + word + " ") != std::string::npos)
      return std::string(synonym.key);
  }
  return word;
}

// Adds to `found` the paths at which the file may have a key of this name. Searches sections, but no lists
// and no maps of sections.
void find_places(const Section& section, const std::string& path, const std::string& name,
                 std::vector<std::string>& found) {
  for (const Key& key : section.keys) {
    if (key.name == name && key.type != Type::later) found.push_back(path + name);
    // The keys of a role are found below `workers` and `servers`. Patches have names of Kubernetes.
    if (key.type == Type::section && key.detail != "patch" && key.detail != "role.patch")
      find_places(schema_section(key.detail), path + std::string(key.name) + ".", name, found);
  }
}

}  // namespace

std::string suggest_key(const std::string& written, const Section& section, const std::string& path) {
  std::vector<std::string> names;
  for (const Key& key : section.keys) names.emplace_back(key.name);
  const std::string word = our_word(written);
  const auto has = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has(word)) return fmt::format("; did you mean '{}'?", word);
  std::vector<std::string> places;
  find_places(schema_section("experiment"), "", word, places);
  constexpr std::size_t most_places = 2;  // with more places the advice names no place
  if (!places.empty() && places.size() <= most_places) {
    if (places.front() == word)
      return fmt::format("; did you mean '{}' of the file itself, outside of {}?", word, path);
    return fmt::format("; did you mean '{}'?", join(places, "' or '"));
  }
  if (const std::string near = did_you_mean(written, names); !near.empty()) return near;
  constexpr std::size_t few = 6;  // if a section has at most this many keys, the advice lists all
  return names.size() <= few ? "; it has " + join(names, ", ") : "";
}

std::string suggest_section(const YamlNode& value, std::string_view section, const std::string& path) {
  struct Main {
    std::string_view section, key;
    bool number;
  };
  static constexpr Main main_keys[] = {{"role", "count", true},
                                       {"optimizer", "type", false},
                                       {"schedule", "type", false},
                                       {"model", "type", false},
                                       {"train.data", "path", false}};
  if (value.kind != YamlNode::Kind::scalar) return "";
  for (const Main& main : main_keys) {
    if (main.section != section || is_whole_number(value.text) != main.number) continue;
    return fmt::format("; write {}: {{{}: {}}}", path.substr(path.rfind('.') + 1), main.key, value.text);
  }
  return "";
}

std::string suggest_choice(const std::string& written, std::string_view choices) {
  return did_you_mean(lower_case(written), split(choices, '|'));
}

}  // namespace mlk
