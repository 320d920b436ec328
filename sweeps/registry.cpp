#include "sweeps/registry.h"

#include <algorithm>
#include <future>

#include <fmt/format.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/facts.h"
#include "cli/run/find.h"
#include "cli/run/indexes.h"
#include "cli/run/labels.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr std::string_view before_number = "-trials-";

// The number of the Job that an object of this name belongs to; -1 for any other object.
int number_of_job(const std::string& name, const std::string& sweep) {
  if (!name.starts_with(sweep + std::string(before_number))) return -1;
  return parse_int(std::string_view(name).substr(sweep.size() + before_number.size()), -1);
}

}  // namespace

bool has_finished(const json& job) {
  for (const json& condition : at_path(job, {"status", "conditions"})) {
    const std::string type = text_of(condition, {"type"});
    if ((type == "Complete" || type == "Failed") && text_of(condition, {"status"}) == "True") return true;
  }
  return false;
}

json config_map_of(const json& owner, const std::string& name, const std::string& key,
                   const std::string& text) {
  const std::string sweep = kube::name_of(owner);
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata",
           {{"name", name},
            {"labels",
             {{labels::managed_by, "mlk"},
              {labels::run, sweep},
              {labels::name, kube::label_of(owner, labels::name)},
              {labels::sweep, sweep}}},
            {"ownerReferences",
             {{{"apiVersion", "v1"},
               {"kind", "ConfigMap"},
               {"name", sweep},
               {"uid", kube::uid_of(owner)},
               {"blockOwnerDeletion", false}}}}}},
          {"data", {{key, text}}}};
}

std::string job_name(const std::string& sweep, int job) {
  return fmt::format("{}{}{}", sweep, before_number, job);
}

SweepObjects fetch_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep,
                         WithPods pods) {
  using namespace kube::resources;
  const kube::ListOptions of_sweep{.label_selector = std::string(labels::sweep) + "=" + sweep};
  const auto list = [&](const kube::Resource& resource) {
    return std::async(std::launch::async, [&client, &resource, &name_space, &of_sweep] {
      return client.list(resource, name_space, of_sweep).items;
    });
  };
  auto list_of_maps = list(config_maps), list_of_jobs = list(jobs);
  SweepObjects objects;
  if (pods == WithPods::yes) objects.pods = client.list(kube::resources::pods, name_space, of_sweep).items;
  objects.jobs = list_of_jobs.get();
  objects.config_maps = list_of_maps.get();
  if (!take_owner(objects)) {
    throw Error(ExitCode::not_found, "there is no sweep '" + sweep + "' in namespace '" + name_space + "'",
                "list them with: mlk ls");
  }
  return objects;
}

bool take_owner(SweepObjects& objects) {
  const auto owner = std::find_if(objects.config_maps.begin(), objects.config_maps.end(), is_sweep);
  if (owner == objects.config_maps.end()) return false;
  objects.owner = std::move(*owner);
  objects.config_maps.erase(owner);
  const std::string uid = kube::uid_of(objects.owner);
  std::erase_if(objects.config_maps, [&](const json& map) {
    const json& owners = at_path(map, {"metadata", "ownerReferences"});
    return std::none_of(owners.begin(), owners.end(),
                        [&](const json& reference) { return text_of(reference, {"uid"}) == uid; });
  });
  return true;
}

std::vector<Batch> batches_of(const SweepObjects& objects) {
  const std::string sweep = kube::name_of(objects.owner);
  std::map<int, Batch> batches;
  for (const json& map : objects.config_maps) {
    const int number = number_of_job(kube::name_of(map), sweep);
    if (number < 0) continue;
    batches[number].job = number;
    batches[number].by_cluster = at_path(map, {"immutable"}) == true;
    batches[number].trials = parse_points(text_of(map, {"data", "points.jsonl"}));
  }
  for (const json& job : objects.jobs) {
    const auto batch = batches.find(number_of_job(kube::name_of(job), sweep));
    if (batch != batches.end()) batch->second.object = job;
  }
  std::vector<Batch> out;
  for (auto& [number, batch] : batches) out.push_back(std::move(batch));
  return out;
}

std::set<int> trials_by_cluster(const std::vector<Batch>& batches) {
  std::set<int> out;
  for (const Batch& batch : batches) {
    for (const TrialLine& trial : batch.trials) {
      out.erase(trial.number);
      if (batch.by_cluster) out.insert(trial.number);
    }
  }
  return out;
}

bool any_job_goes_on(const std::vector<Batch>& batches) {
  return std::any_of(batches.begin(), batches.end(),
                     [](const Batch& batch) { return batch.object && !has_finished(*batch.object); });
}

int places_taken(const std::vector<Batch>& batches) {
  int taken = 0;
  for (const Batch& batch : batches) {
    if (!batch.object || has_finished(*batch.object)) continue;
    const auto ended = parse_indexes(text_of(*batch.object, {"status", "completedIndexes"})).size() +
                       parse_indexes(text_of(*batch.object, {"status", "failedIndexes"})).size();
    const int left = static_cast<int>(batch.trials.size()) - static_cast<int>(ended);
    taken += std::clamp(left, 0, number_of(*batch.object, {"spec", "parallelism"}, 1));
  }
  return taken;
}

std::map<int, int> shares_of(const std::vector<Batch>& batches, int parallel) {
  std::vector<const Batch*> missing;
  for (const Batch& batch : batches) {
    if (batch.by_cluster && !batch.object && !batch.trials.empty()) missing.push_back(&batch);
  }
  int free = parallel - places_taken(batches), jobs = static_cast<int>(missing.size());
  std::map<int, int> out;
  for (const Batch* batch : missing) {
    const int share = std::min(std::max(1, free / jobs--), static_cast<int>(batch->trials.size()));
    out[batch->job] = share;
    free -= share;
  }
  return out;
}

}  // namespace mlk::sweeps
