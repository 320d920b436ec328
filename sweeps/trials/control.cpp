#include "sweeps/trials/control.h"

#include <algorithm>
#include <charconv>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/change/suspend.h"
#include "cli/run/facts/labels.h"
#include "cli/util/json_path.h"
#include "cli/util/time.h"
#include "sweeps/trials/trial_runs.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

// If the owner has changed since it was read, the driver decides again in its next round.
void mark_as_read(kube::Client& client, const std::string& name_space, const json& owner, json annotations) {
  patch_as_read(client, name_space, owner, {{"metadata", {{"annotations", std::move(annotations)}}}});
}

// The owner of the sweep, and its Jobs whose indexes are trials.
RunObjects own_jobs(const SweepObjects& objects) {
  RunObjects own;
  own.owner = objects.owner;
  for (const json& job : objects.jobs) {
    if (kube::label_of(job, labels::run) == kube::name_of(objects.owner)) own.jobs.push_back(job);
  }
  return own;
}

std::string time_now() { return format_time(std::chrono::system_clock::now()); }

}  // namespace

bool patch_as_read(kube::Client& client, const std::string& name_space, const json& owner, json patch) {
  patch["metadata"]["resourceVersion"] = text_of(owner, {"metadata", "resourceVersion"});
  try {
    client.patch(kube::resources::config_maps, name_space, kube::name_of(owner), patch);
    return true;
  } catch (const kube::ApiError& error) {
    if (error.status() != 409) throw;
    return false;
  }
}

std::int64_t rung_of(const json& owner, const char* annotation) {
  const std::string text = kube::annotation_of(owner, annotation);
  std::int64_t rung = 0;
  std::from_chars(text.data(), text.data() + text.size(), rung);
  return std::max<std::int64_t>(rung, 0);
}

void let_train(kube::Client& client, const std::string& name_space, const RunObjects& run,
               std::int64_t until) {
  mark_as_read(client, name_space, run.owner, {{annotations::until, std::to_string(until)}});
}

void mark_paused(kube::Client& client, const std::string& name_space, const RunObjects& run,
                 std::int64_t rung) {
  const std::string at = std::to_string(rung);
  mark_as_read(client, name_space, run.owner,
               {{annotations::stopped, time_now()}, {annotations::until, at}, {annotations::paused, at}});
}

void apply_pause(kube::Client& client, const std::string& name_space, const RunObjects& run) {
  const std::int64_t paused = rung_of(run.owner, annotations::paused);
  if (paused == 0 || !kube::annotation_of(run.owner, annotations::stopped_early).empty()) return;
  const bool goes_on = rung_of(run.owner, annotations::until) > paused;
  set_suspended(client, name_space, run.jobs, !goes_on);
  if (goes_on)
    mark_as_read(client, name_space, run.owner,
                 {{annotations::stopped, nullptr}, {annotations::paused, nullptr}});
}

void stop_trial(kube::Client& client, const std::string& name_space, const RunObjects& run,
                const std::string& reason) {
  json annotations = json::object();
  if (!reason.empty()) annotations[annotations::stopped_early] = reason;
  suspend_run(client, name_space, run, annotations);
}

void drain_sweep(kube::Client& client, const std::string& name_space, const std::string& sweep) {
  client.patch(kube::resources::config_maps, name_space, sweep,
               {{"metadata", {{"annotations", {{annotations::draining, time_now()}}}}}});
}

void write_phase(kube::Client& client, const std::string& name_space, const json& owner, const Record& record,
                 const json& phase) {
  json patch = owner_patch(record);
  patch["metadata"]["annotations"][annotations::phase] = phase;
  patch_as_read(client, name_space, owner, std::move(patch));
}

void fail_trial(kube::Client& client, const std::string& name_space, const RunObjects& run,
                const std::string& reason) {
  suspend_run(client, name_space, run, {{annotations::cannot_start, reason}});
}

bool goes_on_later(const json& owner) {
  return is_marked_stopped(owner) && kube::annotation_of(owner, annotations::stopped_early).empty() &&
         kube::annotation_of(owner, annotations::cannot_start).empty() &&
         kube::annotation_of(owner, annotations::paused).empty();
}

void stop_sweep(kube::Client& client, const std::string& name_space, const SweepObjects& objects) {
  suspend_run(client, name_space, own_jobs(objects));
  for (const auto& [name, run] : runs_of(objects)) {
    if (!is_over(observe(run, std::chrono::system_clock::now()))) stop_trial(client, name_space, run);
  }
}

void resume_sweep(kube::Client& client, const std::string& name_space, const SweepObjects& objects) {
  const RunObjects own = own_jobs(objects);
  set_suspended(client, name_space, own.jobs, false);
  for (const auto& [name, run] : runs_of(objects)) {
    if (goes_on_later(run.owner)) resume_run(client, name_space, run);
  }
  unmark_stopped(client, name_space, own.owner,
                 {{"metadata", {{"annotations", {{annotations::draining, nullptr}}}}}});
}

}  // namespace mlk::sweeps
