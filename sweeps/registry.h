// What the cluster holds of a sweep: which trials there are, and in which Jobs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/trials_job.h"

namespace mlk::kube {
class Client;
}

namespace mlk::sweeps {

// All objects of one sweep, as the API server gives them.
struct SweepObjects {
  nlohmann::json owner;
  std::vector<nlohmann::json> config_maps, jobs, pods;
};

enum class WithPods { no, yes };

// In three requests side by side. Throws Error{not_found} without an owner.
SweepObjects fetch_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep,
                         WithPods pods);

// Finds the sweep's owner among the ConfigMaps, and leaves out those of an earlier sweep of the name, which
// are being collected. False without an owner. Pure.
bool take_owner(SweepObjects& objects);

// A ConfigMap with points. Those of a Job never change: its indexes are the trials. Others grow while a
// driver starts a run for each of their trials.
struct Batch {
  int job = 0;  // number of the ConfigMap, and of the Job
  std::vector<TrialLine> trials;
  bool by_cluster = false;               // for a Job
  std::optional<nlohmann::json> object;  // the Job; missing when whoever wrote the points down was cut off
};

// Ascending by number. Pure.
std::vector<Batch> batches_of(const SweepObjects& objects);

// Numbers of the trials that are indexes of Jobs; others are runs. Pure.
std::set<int> trials_by_cluster(const std::vector<Batch>& batches);

// How many trials the Jobs that go on may have at work, now and later. Pure.
int places_taken(const std::vector<Batch>& batches);

// The parallelism of each Job that is missing, by its number: what the others leave of `parallel`, and at
// least 1. Pure.
std::map<int, int> shares_of(const std::vector<Batch>& batches, int parallel);

// Whether a Job goes on. Pure.
bool any_job_goes_on(const std::vector<Batch>& batches);

// Whether a Job says that it is Complete or Failed.
bool has_finished(const nlohmann::json& job);

// A ConfigMap that belongs to the sweep with this owner, and holds one text.
nlohmann::json config_map_of(const nlohmann::json& owner, const std::string& name, const std::string& key,
                             const std::string& text);

// "digits-abcde-trials-0"
std::string job_name(const std::string& sweep, int job);

}  // namespace mlk::sweeps
