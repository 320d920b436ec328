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
struct ListOptions;
struct Resource;
}  // namespace mlk::kube

namespace mlk::sweeps {

// All objects of one sweep, as the API server gives them, less what slim() takes out.
struct SweepObjects {
  nlohmann::json owner;
  std::vector<nlohmann::json> config_maps, jobs, pods;
  std::vector<nlohmann::json> drivers{},
      driver_pods{};                     // Jobs with the driver of a detached sweep: no trials
  std::vector<nlohmann::json> events{};  // the cluster's warnings about them; without pods not asked for
};

enum class WithPods { no, yes };

// In four requests side by side; three without pods. Throws Error{not_found} without an owner.
SweepObjects fetch_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep,
                         WithPods pods);

// The pods of a sweep.
std::vector<nlohmann::json> fetch_pods(kube::Client& client, const std::string& name_space,
                                       const std::string& sweep);
// Of many pods no more than tells which trials run: of those that do, their metadata and that they do. When
// none does, some of those that wait, which say why.
std::vector<nlohmann::json> fetch_running_pods(kube::Client& client, const std::string& name_space,
                                               const std::string& sweep);

// All of a sweep of that kind, in pages that the largest ConfigMaps do not make too large; slim().
kube::ListOptions of_sweep(const std::string& sweep, const kube::Resource& resource);

// Takes out what nobody looks at when the object is one of thousands: the pod template of a Job, the most of
// a pod's spec, who manages which field. That is nine tenths of it. Pure.
void slim(nlohmann::json& object);
// The cluster's warnings about objects of the sweep. A sweep can be read without them, only less well
// explained: who may not list them does without.
std::vector<nlohmann::json> fetch_warnings(kube::Client& client, const std::string& name_space,
                                           const std::string& sweep);

// Those of namespace-wide `events` that are about objects of the sweep. Pure.
std::vector<nlohmann::json> warnings_of(const std::string& sweep, std::vector<nlohmann::json> events);

// Gives the sweep its pods; those with a driver are put apart. Pure.
void set_pods(SweepObjects& objects, std::vector<nlohmann::json> pods);

// Finds the sweep's owner among the ConfigMaps, and leaves out those of an earlier sweep of the name, which
// are being collected. Puts what belongs to a driver apart. False without an owner. Pure.
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
// Writes trials of a driven sweep down, before they are started: numbers and trials are never given twice. A
// line with a number that is there already means another try of that trial, in a run of its own. In one
// write, of a ConfigMap with at most so many bytes of points: returns how many of the first were written.
// None when somebody else has written since `objects` were read. Throws ApiError.
std::size_t append_points(kube::Client& client, const std::string& name_space, const SweepObjects& objects,
                          const std::vector<TrialLine>& trials, std::size_t most_bytes);

// Whether a Job says that it is Complete or Failed.
bool has_finished(const nlohmann::json& job);

// A ConfigMap that belongs to the sweep with this owner, and holds one text.
nlohmann::json config_map_of(const nlohmann::json& owner, const std::string& name, const std::string& key,
                             const std::string& text);

// "digits-abcde-trials-0"
std::string job_name(const std::string& sweep, int job);
// The inverse; -1 for any other name.
int number_of_job(const std::string& name, const std::string& sweep);

// The ConfigMap with points of the highest number; nullptr without any.
const nlohmann::json* last_points(const SweepObjects& objects);

}  // namespace mlk::sweeps
