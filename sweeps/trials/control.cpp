#include "sweeps/trials/control.h"

#include <algorithm>
#include <charconv>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "cli/util/json_path.h"
#include "cli/util/time.h"
#include "sweeps/trials/trial_runs.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

void mark(kube::Client& client, const std::string& name_space, const std::string& owner, json annotations) {
  client.patch(kube::resources::config_maps, name_space, owner,
               {{"metadata", {{"annotations", std::move(annotations)}}}});
}

// If the owner has changed since it was read, does nothing: the next look decides again.
void mark_as_read(kube::Client& client, const std::string& name_space, const json& owner, json annotations) {
  try {
    client.patch(kube::resources::config_maps, name_space, kube::name_of(owner),
                 {{"metadata",
                   {{"annotations", std::move(annotations)},
                    {"resourceVersion", text_of(owner, {"metadata", "resourceVersion"})}}}});
  } catch (const kube::ApiError& error) {
    if (error.status() != 409) throw;
  }
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

std::int64_t rung_of(const json& owner, const char* annotation) {
  const std::string text = kube::annotation_of(owner, annotation);
  std::int64_t rung = 0;
  std::from_chars(text.data(), text.data() + text.size(), rung);
  return std::max<std::int64_t>(rung, 0);
}

void let_train(kube::Client& client, const std::string& name_space, const RunObjects& run,
               std::int64_t until) {
  mark_as_read(client, name_space, run.owner, {{labels::until, std::to_string(until)}});
}

void mark_paused(kube::Client& client, const std::string& name_space, const RunObjects& run,
                 std::int64_t rung) {
  const std::string at = std::to_string(rung);
  mark_as_read(client, name_space, run.owner,
               {{labels::stopped, time_now()}, {labels::until, at}, {labels::paused, at}});
}

void settle_pause(kube::Client& client, const std::string& name_space, const RunObjects& run) {
  const std::int64_t paused = rung_of(run.owner, labels::paused);
  if (paused == 0 || !kube::annotation_of(run.owner, labels::stopped_early).empty()) return;
  const bool goes_on = rung_of(run.owner, labels::until) > paused;
  set_suspended(client, name_space, run.jobs, !goes_on);
  if (goes_on)
    mark_as_read(client, name_space, run.owner, {{labels::stopped, nullptr}, {labels::paused, nullptr}});
}

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
         kube::annotation_of(owner, labels::cannot_start).empty() &&
         kube::annotation_of(owner, labels::paused).empty();
}

void stop_sweep(kube::Client& client, const std::string& name_space, const SweepObjects& objects) {
  const std::string sweep = kube::name_of(objects.owner);
  if (!was_stopped(objects.owner)) mark(client, name_space, sweep, {{labels::stopped, time_now()}});
  std::vector<json> own;  // Jobs whose indexes are trials
  for (const json& job : objects.jobs) {
    if (kube::label_of(job, labels::run) == sweep) own.push_back(job);
  }
  set_suspended(client, name_space, own, true);
  for (const auto& [name, run] : runs_of(objects)) {
    if (!is_over(observe(run, std::chrono::system_clock::now()))) stop_trial(client, name_space, run);
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
