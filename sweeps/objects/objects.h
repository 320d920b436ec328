// The objects of a sweep in the cluster. These objects say which trials exist, and which Jobs run them.
//
//   ConfigMap digits-abcde                the owner: the record of the sweep, the marks of a stop or drain
//   ConfigMap digits-abcde-trials-0       a batch of points: the indexes of Job 0 (never changes)
//   Job       digits-abcde-trials-0       runs these points, if the cluster runs the sweep
//   ConfigMap digits-abcde-trials-1       points of trials that are runs (grows)
//   ConfigMap digits-abcde-12345678       the owner of the run of one trial, with Jobs and pods
//   ConfigMap digits-abcde-ledger-0       results of trials (ledger_store.h)
//   Lease     digits-abcde                who drives the sweep
//
// fetch_sweep() reads the objects once; SweepWatch (watch.h) keeps copies of them current for a driver. Both
// return SweepObjects, the input of observe_sweep() and of most other functions.
//
// Invariants: each trial has its own number. mlk registers points before it makes a Job or a run of these
// points. The server refuses a write to a ConfigMap with points if the ConfigMap has changed since it was
// read.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/objects/trials_job.h"

namespace mlk::kube {
class Client;
struct ListOptions;
struct Resource;
}  // namespace mlk::kube

namespace mlk::sweeps {

// All objects of one sweep as the API server gives them, without the parts that slim() removes.
struct SweepObjects {
  nlohmann::json owner;
  std::vector<nlohmann::json> config_maps, jobs, pods;
  std::vector<nlohmann::json> drivers{}, driver_pods{};  // of the driver of a detached sweep, not of trials
  std::optional<nlohmann::json> lease{};  // of the driver; nullopt: unknown; JSON null: there is no Lease
  std::vector<nlohmann::json> events{};  // warnings about these objects; fetch_sweep(WithPods::no) reads none
};

enum class WithPods { no, yes };

// Makes four requests in parallel, or two without pods. Also reads missing Jobs again (confirm_absences()).
// Throws Error{not_found} if there is no owner.
SweepObjects fetch_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep,
                         WithPods pods);

// The pods of a sweep, including those of its drivers.
std::vector<nlohmann::json> fetch_pods(kube::Client& client, const std::string& name_space,
                                       const std::string& sweep);
// Reads only the metadata of the running pods, for sweeps with many pods. The metadata shows which trials
// run. If no trial runs, also reads some waiting pods, since these pods show why no trial runs.
std::vector<nlohmann::json> fetch_running_pods(kube::Client& client, const std::string& name_space,
                                               const std::string& sweep);

// The options for listing a sweep's objects of one kind (`resource`). Pages stay small even with the largest
// ConfigMaps. slim() shortens each object.
kube::ListOptions of_sweep(const std::string& sweep, const kube::Resource& resource);

// Removes the unused parts of an object: the pod template of a Job, most of a pod's spec, the managed fields.
// These parts are nine tenths of an object, and a sweep may have thousands of objects. Pure.
void slim(nlohmann::json& object);
// The cluster's warnings about objects of the sweep. Empty if the user has no right to list events. Without
// warnings the status of the sweep explains less.
std::vector<nlohmann::json> fetch_warnings(kube::Client& client, const std::string& name_space,
                                           const std::string& sweep);

// Those of the namespace's `events` that are about objects of the sweep. Pure.
std::vector<nlohmann::json> warnings_of(const std::string& sweep, std::vector<nlohmann::json> events);

// Sets the sweep's pods; stores pods of a driver separately. Pure.
void set_pods(SweepObjects& objects, std::vector<nlohmann::json> pods);

// Removes from `from` all objects for which `moves` returns true, and appends them to `to`. Both lists keep
// their order. Pure.
void move_if(std::vector<nlohmann::json>& from, std::vector<nlohmann::json>& to,
             const std::function<bool(const nlohmann::json&)>& moves);

// Moves the sweep's owner out of the ConfigMaps, and removes ConfigMaps of an earlier sweep of the same name,
// which are being garbage collected. Also stores Jobs and pods of a driver separately. Returns false if
// there is no owner. Pure.
bool extract_owner(SweepObjects& objects);

// A ConfigMap with points. The ConfigMap of a Job never changes, since its lines belong to the indexes of the
// Job. Other ConfigMaps grow, and a driver starts a run for each of their trials.
struct Batch {
  int job = 0;  // the number of the ConfigMap and of its Job
  std::vector<TrialLine> trials;
  bool by_cluster = false;               // whether the ConfigMap belongs to a Job
  std::optional<nlohmann::json> object;  // the Job, if it exists
  bool made = false;  // the sweep's owner says that the Job was made; mlk never makes it again
  bool gone = false;  // the sweep's owner says that the Job is gone
};

// Reads again the Jobs that were made and are missing in `objects`: the sweep's own Jobs, and the Jobs of
// trials that are runs (run/facts/absence.h).
void confirm_absences(kube::Client& client, const std::string& name_space, SweepObjects& objects);
// Returns the objects of a watch. If a Job that was made is missing in these objects, reads all objects again
// with fetch_sweep().
SweepObjects without_doubt(kube::Client& client, const std::string& name_space, SweepObjects watched);

// The batches of the sweep, ascending by number. Pure.
std::vector<Batch> batches_of(const SweepObjects& objects);

// The parallel places that the unfinished Jobs occupy: for each Job its parallelism, or the number of its
// unfinished trials if this number is smaller. Pure.
int places_taken(const std::vector<Batch>& batches);

// The parallelism of each Job that is still to be made; the key is the number of the Job. The new Jobs
// share equally those of the `parallel` places that the existing Jobs do not occupy. Each new Job gets at
// least 1 place, and at most one for each of its trials. Pure.
std::map<int, int> shares_of(const std::vector<Batch>& batches, int parallel);

// Whether any of the existing Jobs has not finished. Pure.
bool any_job_goes_on(const std::vector<Batch>& batches);
// Registers trials of a driven sweep before they are started, so that no number is used twice. A line with an
// existing number means another try of that trial, in a run of its own. Makes one write, to a ConfigMap of at
// most `most_bytes`. Returns how many trials it has written: the first ones of `trials`, or 0 if another
// process has written since `objects` were read. Throws ApiError.
std::size_t append_points(kube::Client& client, const std::string& name_space, const SweepObjects& objects,
                          const std::vector<TrialLine>& trials, std::size_t most_bytes);

// Whether the owner with this uid is among the owners of the object.
bool has_owner(const nlohmann::json& object, const std::string& uid);

// Whether a Job is Complete or Failed.
bool has_finished(const nlohmann::json& job);

// A ConfigMap that belongs to the sweep with this owner, and contains only `text`, under `key`.
nlohmann::json config_map_of(const nlohmann::json& owner, const std::string& name, const std::string& key,
                             const std::string& text);

// "digits-abcde-trials-0"
std::string job_name(const std::string& sweep, int job);
// The inverse of job_name(); -1 for any other name.
int number_of_job(const std::string& name, const std::string& sweep);

// The ConfigMap with points that has the highest number. nullptr if there is no such ConfigMap.
const nlohmann::json* last_points(const SweepObjects& objects);

}  // namespace mlk::sweeps
