#include "sweeps/objects/ledger_store.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/util/json_path.h"
#include "cli/util/number.h"
#include "sweeps/objects/objects.h"
#include "sweeps/space/ledger.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr int most_writes = 5;  // of one shard, if other processes write at the same time

std::string shard_name(const std::string& sweep, std::size_t shard) {
  return fmt::format("{}-ledger-{}", sweep, shard);
}

bool is_shard(const std::string& name, const std::string& sweep) {
  const std::string prefix = sweep + "-ledger-";
  return name.starts_with(prefix) && parse_int(std::string_view(name).substr(prefix.size()), -1) >= 0;
}

std::map<int, Trial> trials_of_shard(const json& map) {
  std::map<int, Trial> trials;
  for (Trial& trial : from_shard(text_of(map, {"data", "trials.jsonl"})))
    trials[trial.number] = std::move(trial);
  return trials;
}

std::string text_of_shard(const std::map<int, Trial>& trials) {
  std::string text;
  for (const auto& [number, trial] : trials) text += to_line(trial) + "\n";
  return text;
}

// Whether the ledger already has exactly this trial. This check has to be cheap, since a sweep may have
// thousands of unchanged trials. The result is also false if a line cannot store the trial exactly; then
// Writer compares the texts.
bool has_recorded(const std::map<int, Trial>& ledger, const Trial& trial) {
  const auto known = ledger.find(trial.number);
  return known != ledger.end() && combine(known->second, trial) == known->second;
}

class Writer {
 public:
  Writer(kube::Client& client, const std::string& name_space, const json& owner)
      : client_(client), name_space_(name_space), owner_(owner) {}

  void write(const std::string& name, const json* known, const std::vector<const Trial*>& trials) {
    std::optional<json> map = known == nullptr ? std::nullopt : std::optional<json>(*known);
    for (int attempt = 0; attempt < most_writes; ++attempt) {
      std::map<int, Trial> all = map ? trials_of_shard(*map) : std::map<int, Trial>();
      for (const Trial* trial : trials) {
        const auto here = all.find(trial->number);
        all[trial->number] = here == all.end() ? *trial : combine(here->second, *trial);
      }
      const std::string text = text_of_shard(all);
      if (map && text == text_of(*map, {"data", "trials.jsonl"})) return;
      if (try_write(name, map, text)) return;
      map = client_.find(kube::resources::config_maps, name_space_, name);
    }
    throw Error(ExitCode::failure, "configmap/" + name + " is changed by others all the time");
  }

 private:
  bool try_write(const std::string& name, const std::optional<json>& map, const std::string& text) {
    try {
      if (map) {
        client_.patch(kube::resources::config_maps, name_space_, name,
                      {{"metadata", {{"resourceVersion", text_of(*map, {"metadata", "resourceVersion"})}}},
                       {"data", {{"trials.jsonl", text}}}});
      } else {
        client_.create(kube::resources::config_maps, name_space_,
                       config_map_of(owner_, name, "trials.jsonl", text));
      }
      return true;
    } catch (const kube::ApiError& error) {
      if (error.status() == 409 || error.status() == 404) return false;
      throw;
    }
  }

  kube::Client& client_;
  const std::string& name_space_;
  const json& owner_;
};

}  // namespace

std::vector<Trial> read_ledger(const std::string& sweep, const std::vector<json>& config_maps) {
  std::vector<Trial> trials;
  for (const json& map : config_maps) {
    if (!is_shard(kube::name_of(map), sweep)) continue;
    for (auto& [number, trial] : trials_of_shard(map)) trials.push_back(std::move(trial));
  }
  return trials;
}

std::size_t lines_of_ledger(const std::string& sweep, const std::vector<json>& config_maps) {
  std::size_t lines = 0;
  for (const json& map : config_maps) {
    if (!is_shard(kube::name_of(map), sweep)) continue;
    const std::string text = text_of(map, {"data", "trials.jsonl"});
    lines += static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  return lines;
}

bool write_ledger(kube::Client& client, const std::string& name_space, const json& owner,
                  const std::vector<json>& config_maps, const std::vector<Trial>& trials,
                  const std::map<int, Trial>& known, std::string* problem) {
  std::vector<Trial> ended;
  std::copy_if(trials.begin(), trials.end(), std::back_inserter(ended), [&](const Trial& trial) {
    // A trial that was stopped without a reason continues when the sweep is resumed.
    const bool for_good = trial.state == TrialState::stopped && !trial.failure.empty();
    const bool settled =
        trial.state == TrialState::succeeded || trial.state == TrialState::failed || for_good;
    return settled && !has_recorded(known, trial);
  });
  return write_lines(client, name_space, owner, config_maps, ended, problem);
}

bool write_lines(kube::Client& client, const std::string& name_space, const json& owner,
                 const std::vector<json>& config_maps, const std::vector<Trial>& trials,
                 std::string* problem) {
  const std::string sweep = kube::name_of(owner);
  std::map<std::string, std::vector<const Trial*>> by_shard;
  for (const Trial& trial : trials)
    by_shard[shard_name(sweep, static_cast<std::size_t>(trial.number) / lines_per_shard)].push_back(&trial);
  Writer writer(client, name_space, owner);
  bool written = true;
  for (const auto& [name, of_shard] : by_shard) {
    const auto shard = std::find_if(config_maps.begin(), config_maps.end(),
                                    [&n = name](const json& map) { return kube::name_of(map) == n; });
    try {
      writer.write(name, shard == config_maps.end() ? nullptr : &*shard, of_shard);
    } catch (const Error& error) {
      written = false;
      if (problem != nullptr) *problem = error.what();
    }
  }
  return written;
}

}  // namespace mlk::sweeps
