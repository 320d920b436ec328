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

// A sweep can be read without them, only less well explained: who may not list them does without.
std::vector<json> list_warnings(kube::Client& client, const std::string& name_space,
                                const std::string& sweep) {
  const kube::ListOptions warnings{.label_selector = "", .field_selector = "type!=Normal"};
  try {
    return warnings_of(sweep, client.list(kube::resources::events, name_space, warnings).items);
  } catch (const kube::ApiError& error) {
    if (error.status() != 403) throw;
    return {};
  }
}

}  // namespace

std::vector<json> warnings_of(const std::string& sweep, std::vector<json> events) {
  std::erase_if(events, [&](const json& event) {
    return !text_of(event, {"involvedObject", "name"}).starts_with(sweep + "-");
  });
  return events;
}

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
  std::future<std::vector<json>> list_of_events;
  if (pods == WithPods::yes) {
    list_of_events = std::async(std::launch::async, [&] { return list_warnings(client, name_space, sweep); });
    objects.pods = client.list(kube::resources::pods, name_space, of_sweep).items;
  }
  objects.jobs = list_of_jobs.get();
  objects.config_maps = list_of_maps.get();
  if (list_of_events.valid()) objects.events = list_of_events.get();
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
    batches[number].trials = parse_points(text_of(map, {"data", "points.jsonl"}));
  }
  for (const json& job : objects.jobs) {
    const auto batch = batches.find(number_of_job(kube::name_of(job), sweep));
    if (batch != batches.end()) batch->second.object = job;
  }
  std::vector<Batch> out;
  for (auto& [number, batch] : batches) out.push_back(std::move(batch));
  std::map<int, int> attempts;
  for (Batch& batch : out) {
    for (TrialLine& trial : batch.trials) trial.attempt = ++attempts[trial.number];
  }
  return out;
}

bool append_points(kube::Client& client, const std::string& name_space, const SweepObjects& objects,
                   const std::vector<TrialLine>& trials) {
  if (trials.empty()) return true;
  std::string text;
  for (const TrialLine& trial : trials) text += points_line(trial) + "\n";
  const std::string sweep = kube::name_of(objects.owner);
  const std::vector<Batch> batches = batches_of(objects);
  const int last = batches.empty() ? -1 : batches.back().job;
  const auto map =
      std::find_if(objects.config_maps.begin(), objects.config_maps.end(),
                   [&](const json& each) { return kube::name_of(each) == job_name(sweep, last); });
  const std::string before = map == objects.config_maps.end() ? "" : text_of(*map, {"data", "points.jsonl"});
  const bool fits = map != objects.config_maps.end() && before.size() + text.size() <= most_points_bytes;
  try {
    if (fits) {
      client.patch(kube::resources::config_maps, name_space, kube::name_of(*map),
                   {{"metadata", {{"resourceVersion", text_of(*map, {"metadata", "resourceVersion"})}}},
                    {"data", {{"points.jsonl", before + text}}}});
    } else {
      client.create(kube::resources::config_maps, name_space,
                    config_map_of(objects.owner, job_name(sweep, last + 1), "points.jsonl", text));
    }
    return true;
  } catch (const kube::ApiError& error) {
    if (error.status() == 409) return false;
    throw;
  }
}

}  // namespace mlk::sweeps
