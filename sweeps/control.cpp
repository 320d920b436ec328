#include "sweeps/control.h"

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/facts.h"
#include "cli/run/labels.h"
#include "cli/util/time.h"
#include "sweeps/trial_runs.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

void mark(kube::Client& client, const std::string& name_space, const std::string& owner, json annotations) {
  client.patch(kube::resources::config_maps, name_space, owner,
               {{"metadata", {{"annotations", std::move(annotations)}}}});
}

void set_suspended(kube::Client& client, const std::string& name_space, const std::vector<json>& jobs,
                   bool suspended) {
  for (const json& job : jobs) {
    if ((at_path(job, {"spec", "suspend"}) == true) != suspended)
      client.patch(kube::resources::jobs, name_space, kube::name_of(job),
                   {{"spec", {{"suspend", suspended}}}});
  }
}

std::string time_now() { return format_time(std::chrono::system_clock::now()); }

bool was_stopped(const json& owner) { return !kube::annotation_of(owner, labels::stopped).empty(); }

}  // namespace

void stop_trial(kube::Client& client, const std::string& name_space, const RunObjects& run,
                const std::string& reason) {
  json annotations = json::object();
  if (!was_stopped(run.owner)) annotations[labels::stopped] = time_now();
  if (!reason.empty()) annotations[labels::stopped_early] = reason;
  if (!annotations.empty()) mark(client, name_space, kube::name_of(run.owner), std::move(annotations));
  set_suspended(client, name_space, run.jobs, true);
}

void drain_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep) {
  mark(client, name_space, sweep, {{labels::draining, time_now()}});
}

void fail_trial(kube::Client& client, const std::string& name_space, const RunObjects& run,
                const std::string& reason) {
  json annotations = {{labels::cannot_start, reason}};
  if (!was_stopped(run.owner)) annotations[labels::stopped] = time_now();
  mark(client, name_space, kube::name_of(run.owner), std::move(annotations));
  set_suspended(client, name_space, run.jobs, true);
}

void resume_trial(kube::Client& client, const std::string& name_space, const RunObjects& run) {
  set_suspended(client, name_space, run.jobs, false);
  mark(client, name_space, kube::name_of(run.owner), {{labels::stopped, nullptr}});
}

bool goes_on_later(const json& owner) {
  return was_stopped(owner) && kube::annotation_of(owner, labels::stopped_early).empty() &&
         kube::annotation_of(owner, labels::cannot_start).empty();
}

void stop_sweep(kube::Client& client, const std::string& name_space, const SweepObjects& objects) {
  const std::string sweep = kube::name_of(objects.owner);
  if (!was_stopped(objects.owner)) mark(client, name_space, sweep, {{labels::stopped, time_now()}});
  std::vector<json> own;  // Jobs of which the indexes are trials
  for (const json& job : objects.jobs) {
    if (kube::label_of(job, labels::run) == sweep) own.push_back(job);
  }
  set_suspended(client, name_space, own, true);
  for (const auto& [name, run] : runs_of(objects)) {
    if (!is_final(observe(run, std::chrono::system_clock::now()).phase)) stop_trial(client, name_space, run);
  }
}

void resume_sweep(kube::Client& client, const std::string& name_space, const SweepObjects& objects) {
  const std::string sweep = kube::name_of(objects.owner);
  std::vector<json> own;
  for (const json& job : objects.jobs) {
    if (kube::label_of(job, labels::run) == sweep) own.push_back(job);
  }
  set_suspended(client, name_space, own, false);
  for (const auto& [name, run] : runs_of(objects)) {
    if (goes_on_later(run.owner)) resume_trial(client, name_space, run);
  }
  mark(client, name_space, sweep, {{labels::stopped, nullptr}, {labels::draining, nullptr}});
}

}  // namespace mlk::sweeps
