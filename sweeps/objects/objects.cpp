#include "sweeps/objects/objects.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/render/own.h"
#include "cli/run/facts/absence.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/owner.h"
#include "cli/run/read/confirm_absences.h"
#include "cli/util/indexes.h"
#include "cli/util/json_path.h"
#include "cli/util/number.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr std::string_view before_number = "-trials-";

}  // namespace

std::vector<json> warnings_of(const std::string& sweep, std::vector<json> events) {
  std::erase_if(events, [&](const json& event) {
    return !text_of(event, {"involvedObject", "name"}).starts_with(sweep + "-");
  });
  return events;
}

std::vector<json> fetch_warnings(kube::Client& client, const std::string& name_space,
                                 const std::string& sweep) {
  const kube::ListOptions warnings{.label_selector = "", .field_selector = "type!=Normal"};
  try {
    return warnings_of(sweep, client.list(kube::resources::events, name_space, warnings).items);
  } catch (const kube::ApiError& error) {
    if (error.status() != 403) throw;
    return {};
  }
}

bool has_owner(const json& object, const std::string& uid) {
  const json& owners = at_path(object, {"metadata", "ownerReferences"});
  return std::any_of(owners.begin(), owners.end(),
                     [&](const json& reference) { return text_of(reference, {"uid"}) == uid; });
}

bool has_finished(const json& job) {
  return kube::condition_of(job, "Complete") != nullptr || kube::condition_of(job, "Failed") != nullptr;
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
            {"ownerReferences", owner_references(sweep, kube::uid_of(owner))}}},
          {"data", {{key, text}}}};
}

int number_of_job(const std::string& name, const std::string& sweep) {
  if (!name.starts_with(sweep + std::string(before_number))) return -1;
  return parse_int(std::string_view(name).substr(sweep.size() + before_number.size()), -1);
}

const json* last_points(const SweepObjects& objects) {
  const std::string sweep = kube::name_of(objects.owner);
  const json* last = nullptr;
  int highest = -1;
  for (const json& map : objects.config_maps) {
    const int number = number_of_job(kube::name_of(map), sweep);
    if (number <= highest) continue;
    highest = number;
    last = &map;
  }
  return last;
}

std::string job_name(const std::string& sweep, int job) {
  return fmt::format("{}{}{}", sweep, before_number, job);
}

void slim(json& object) {
  if (const auto metadata = object.find("metadata"); metadata != object.end() && metadata->is_object())
    metadata->erase("managedFields");
  const auto spec = object.find("spec");
  if (spec == object.end() || !spec->is_object()) return;
  spec->erase("template");  // of a Job
  if (!spec->contains("containers")) return;
  json kept = json::object();  // of a pod
  if (const json& node = at_path(object, {"spec", "nodeName"}); node.is_string()) kept["nodeName"] = node;
  for (const char* list : {"containers", "initContainers"}) {
    for (const json& container : at_path(object, {"spec", list})) {
      json part = {{"name", text_of(container, {"name"})}, {"image", text_of(container, {"image"})}};
      if (container.contains("restartPolicy")) part["restartPolicy"] = container["restartPolicy"];
      kept[list].push_back(std::move(part));
    }
  }
  *spec = std::move(kept);
}

kube::ListOptions of_sweep(const std::string& sweep, const kube::Resource& resource) {
  constexpr int maps_in_first_page = 50;  // of up to 1 MiB each
  kube::ListOptions options;
  options.label_selector = std::string(labels::sweep) + "=" + sweep;
  if (resource.plural == kube::resources::config_maps.plural) options.first_page = maps_in_first_page;
  options.transform = slim;
  return options;
}

std::vector<json> fetch_pods(kube::Client& client, const std::string& name_space, const std::string& sweep) {
  return client.list(kube::resources::pods, name_space, of_sweep(sweep, kube::resources::pods)).items;
}

std::vector<json> fetch_running_pods(kube::Client& client, const std::string& name_space,
                                     const std::string& sweep) {
  kube::ListOptions running = of_sweep(sweep, kube::resources::pods);
  running.field_selector = "status.phase=Running";
  running.metadata_only = true;
  running.transform = [](json& pod) {
    slim(pod);
    pod["status"] = {{"phase", "Running"}};
  };
  std::vector<json> pods = client.list(kube::resources::pods, name_space, running).items;
  if (!std::all_of(pods.begin(), pods.end(), is_driver)) return pods;
  kube::ListOptions pending = of_sweep(sweep, kube::resources::pods);
  pending.field_selector = "status.phase=Pending";
  pending.enough = 1;
  std::vector<json> waiting = client.list(kube::resources::pods, name_space, pending).items;
  std::move(waiting.begin(), waiting.end(), std::back_inserter(pods));
  return pods;
}

SweepObjects fetch_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep,
                         WithPods pods) {
  using namespace kube::resources;
  const auto list = [&](const kube::Resource& resource) {
    return std::async(std::launch::async,
                      [&client, &resource, &name_space, options = of_sweep(sweep, resource)] {
                        return client.list(resource, name_space, options).items;
                      });
  };
  auto list_of_maps = list(config_maps), list_of_jobs = list(jobs);
  SweepObjects objects;
  std::future<std::vector<json>> list_of_events;
  if (pods == WithPods::yes) {
    list_of_events =
        std::async(std::launch::async, [&] { return fetch_warnings(client, name_space, sweep); });
    objects.pods = fetch_pods(client, name_space, sweep);
  }
  objects.jobs = list_of_jobs.get();
  objects.config_maps = list_of_maps.get();
  if (list_of_events.valid()) objects.events = list_of_events.get();
  if (!extract_owner(objects)) {
    throw Error(ExitCode::not_found, "there is no sweep '" + sweep + "' in namespace '" + name_space + "'",
                "list them with: mlk ls");
  }
  confirm_absences(client, name_space, objects);
  return objects;
}

SweepObjects without_doubt(kube::Client& client, const std::string& name_space, SweepObjects watched) {
  std::set<std::string> jobs;
  for (const json& job : watched.jobs) jobs.insert(kube::name_of(job));
  const bool lacks =
      !absences_to_confirm(watched.owner, jobs).empty() ||
      std::any_of(watched.config_maps.begin(), watched.config_maps.end(),
                  [&](const json& map) { return is_trial(map) && !absences_to_confirm(map, jobs).empty(); });
  return lacks ? fetch_sweep(client, name_space, kube::name_of(watched.owner), WithPods::yes)
               : std::move(watched);
}

void confirm_absences(kube::Client& client, const std::string& name_space, SweepObjects& objects) {
  std::vector<json*> owners{&objects.owner};
  for (json& map : objects.config_maps) {
    if (is_trial(map)) owners.push_back(&map);
  }
  mlk::confirm_absences(client, name_space, owners, objects.jobs);
}

void move_if(std::vector<json>& from, std::vector<json>& to, const std::function<bool(const json&)>& moves) {
  const auto first = std::stable_partition(from.begin(), from.end(), std::not_fn(moves));
  std::move(first, from.end(), std::back_inserter(to));
  from.erase(first, from.end());
}

void set_pods(SweepObjects& objects, std::vector<json> pods) {
  objects.pods = std::move(pods);
  move_if(objects.pods, objects.driver_pods, is_driver);
}

bool extract_owner(SweepObjects& objects) {
  move_if(objects.jobs, objects.drivers, is_driver);
  set_pods(objects, std::move(objects.pods));
  const auto owner = std::find_if(objects.config_maps.begin(), objects.config_maps.end(), is_sweep);
  if (owner == objects.config_maps.end()) return false;
  objects.owner = std::move(*owner);
  objects.config_maps.erase(owner);
  const std::string uid = kube::uid_of(objects.owner);
  std::erase_if(objects.config_maps, [&](const json& map) { return !has_owner(map, uid); });
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
  std::map<int, int> attempts;
  const std::vector<std::string> made = jobs_made(objects.owner), gone = jobs_found_gone(objects.owner);
  const auto is_in = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (Batch& batch : out) {
    const std::string job = job_name(sweep, batch.job);
    batch.made = is_in(made, job);
    batch.gone = !batch.object && batch.made && is_in(gone, job);
    for (TrialLine& trial : batch.trials) trial.attempt = ++attempts[trial.number];
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
    const auto ended =
        Indexes::valid_parts_of(text_of(*batch.object, {"status", "completedIndexes"})).size() +
        Indexes::valid_parts_of(text_of(*batch.object, {"status", "failedIndexes"})).size();
    const int left = static_cast<int>(batch.trials.size()) - static_cast<int>(ended);
    taken += std::clamp(left, 0, number_of(*batch.object, {"spec", "parallelism"}, 1));
  }
  return taken;
}

std::map<int, int> shares_of(const std::vector<Batch>& batches, int parallel) {
  std::vector<const Batch*> missing;
  for (const Batch& batch : batches) {
    if (batch.by_cluster && !batch.object && !batch.made && !batch.trials.empty()) missing.push_back(&batch);
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

std::size_t append_points(kube::Client& client, const std::string& name_space, const SweepObjects& objects,
                          const std::vector<TrialLine>& trials, std::size_t most_bytes) {
  // A write sends the whole ConfigMap. So a ConfigMap beyond this size stays unchanged, and new trials go
  // into another ConfigMap.
  constexpr std::size_t large_map = 64 * 1024;
  if (trials.empty()) return 0;
  const std::string sweep = kube::name_of(objects.owner);
  const json* map = last_points(objects);
  std::string text = map == nullptr ? "" : text_of(*map, {"data", "points.jsonl"});
  // The ConfigMap of a Job never changes, since its lines belong to the indexes of the Job.
  const bool full = text.size() > large_map || text.size() + points_line(trials.front()).size() >= most_bytes;
  const bool begins = map == nullptr || at_path(*map, {"immutable"}) == true || full;
  if (begins) text.clear();
  std::size_t written = 0;
  for (const TrialLine& trial : trials) {
    const std::string line = points_line(trial) + "\n";
    if (text.size() + line.size() > most_bytes) break;
    text += line;
    ++written;
  }
  try {
    if (begins) {
      const int last = map == nullptr ? -1 : number_of_job(kube::name_of(*map), sweep);
      client.create(kube::resources::config_maps, name_space,
                    config_map_of(objects.owner, job_name(sweep, last + 1), "points.jsonl", text));
    } else {
      client.patch(kube::resources::config_maps, name_space, kube::name_of(*map),
                   {{"metadata", {{"resourceVersion", text_of(*map, {"metadata", "resourceVersion"})}}},
                    {"data", {{"points.jsonl", text}}}});
    }
  } catch (const kube::ApiError& error) {
    if (error.status() == 409) return 0;
    throw;
  }
  return written;
}

}  // namespace mlk::sweeps
