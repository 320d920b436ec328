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
  std::vector<nlohmann::json> events{};  // the cluster's warnings about them; without pods not asked for
};

enum class WithPods { no, yes };

// In four requests side by side; three without pods. Throws Error{not_found} without an owner.
SweepObjects fetch_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep,
                         WithPods pods);

// Those of namespace-wide `events` that are about objects of the sweep. Pure.
std::vector<nlohmann::json> warnings_of(const std::string& sweep, std::vector<nlohmann::json> events);

// Finds the sweep's owner among the ConfigMaps, and leaves out those of an earlier sweep of the name, which
// are being collected. False without an owner. Pure.
bool take_owner(SweepObjects& objects);

// A ConfigMap with points, and its Job, which is missing when whoever made the first was cut off.
struct Batch {
  int job = 0;  // number of the Job
  std::vector<TrialLine> trials;
  std::optional<nlohmann::json> object;  // the Job
};

// Ascending by number. Pure.
std::vector<Batch> batches_of(const SweepObjects& objects);

// Writes trials of a driven sweep down, before they are started: numbers and trials are never given twice. A
// line with a number that is there already means another try of that trial, in a run of its own. False when
// somebody else has written since `objects` were read: then nothing is written. Throws ApiError.
bool append_points(kube::Client& client, const std::string& name_space, const SweepObjects& objects,
                   const std::vector<TrialLine>& trials);

// Whether a Job says that it is Complete or Failed.
bool has_finished(const nlohmann::json& job);

// A ConfigMap that belongs to the sweep with this owner, and holds one text.
nlohmann::json config_map_of(const nlohmann::json& owner, const std::string& name, const std::string& key,
                             const std::string& text);

// "digits-abcde-trials-0"
std::string job_name(const std::string& sweep, int job);

}  // namespace mlk::sweeps
