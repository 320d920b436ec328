#include "cli/run/change/suspend.h"

#include <algorithm>
#include <chrono>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/facts/going_on.h"
#include "cli/run/facts/labels.h"
#include "cli/util/json_path.h"
#include "cli/util/time.h"

namespace mlk {
namespace {

using nlohmann::json;

std::int64_t generation_of(const json& job) { return count_of(job, {"metadata", "generation"}, 0); }

bool is_suspended(const json& job) { return at_path(job, {"spec", "suspend"}) == true; }

bool is_marked_suspended(const json& job) {
  return kube::annotation_of(job, annotations::suspended) == "true";
}

// Whether another program has resumed the Job after mlk has suspended it.
bool is_resumed_by_another(const json& job) { return is_marked_suspended(job) && !is_suspended(job); }

json suspend_one(kube::Client& client, const std::string& name_space, const std::string& job,
                 bool suspended) {
  json patch = {{"spec", {{"suspend", suspended}}}};
  patch["metadata"]["annotations"][annotations::suspended] = suspended ? json("true") : json(nullptr);
  return client.patch(kube::resources::jobs, name_space, job, patch);
}

void annotate(kube::Client& client, const std::string& name_space, const json& owner, json annotations) {
  client.patch(kube::resources::config_maps, name_space, kube::name_of(owner),
               {{"metadata", {{"annotations", std::move(annotations)}}}});
}

// The patch that restores the owner's former values of these annotations.
json before(const json& owner, const json& annotations) {
  json out = json::object();
  for (const auto& [key, unused] : annotations.items()) {
    const json& old = at_path(owner, {"metadata", "annotations", key.c_str()});
    out[key] = old.is_string() ? old : json(nullptr);
  }
  return out;
}

}  // namespace

bool is_marked_stopped(const json& owner) {
  return !kube::annotation_of(owner, annotations::stopped).empty();
}

Generations suspend_run(kube::Client& client, const std::string& name_space, const RunObjects& run,
                        const json& annotations) {
  json marks = annotations;
  if (!is_marked_stopped(run.owner) || std::any_of(run.jobs.begin(), run.jobs.end(), is_resumed_by_another))
    marks[annotations::stopped] = format_time(std::chrono::system_clock::now());
  if (!marks.empty()) annotate(client, name_space, run.owner, marks);
  Generations generations;
  for (const json& job : run.jobs) generations[kube::name_of(job)] = generation_of(job);
  bool none_yet = true;
  for (const json& job : run.jobs) {
    if (is_suspended(job) && is_marked_suspended(job)) continue;
    try {
      generations[kube::name_of(job)] =
          generation_of(suspend_one(client, name_space, kube::name_of(job), true));
      none_yet = false;
    } catch (const kube::ApiError& error) {
      constexpr int not_found = 404, conflict = 409;  // the Job is gone, or changes at this moment
      const bool refused = error.status() >= 400 && error.status() < 500 && error.status() != not_found &&
                           error.status() != conflict;
      if (none_yet && refused && !marks.empty())
        annotate(client, name_space, run.owner, before(run.owner, marks));
      throw;
    }
  }
  return generations;
}

void resume_run(kube::Client& client, const std::string& name_space, const RunObjects& run,
                const json& more) {
  set_suspended(client, name_space, run.jobs, false);
  unmark_stopped(client, name_space, run.owner, more);
}

void unmark_stopped(kube::Client& client, const std::string& name_space, const json& owner,
                    const json& more) {
  json patch = {{"metadata", {{"annotations", {{annotations::stopped, nullptr}}}}}};
  patch.update(more, true);
  client.patch(kube::resources::config_maps, name_space, kube::name_of(owner), patch);
}

bool was_resumed(const RunObjects& run, const Generations& generations) {
  return std::any_of(run.jobs.begin(), run.jobs.end(), [&](const json& job) {
    const auto ours = generations.find(kube::name_of(job));
    return ours != generations.end() && !is_suspended(job) && generation_of(job) > ours->second;
  });
}

void set_suspended(kube::Client& client, const std::string& name_space, const std::vector<json>& jobs,
                   bool suspended) {
  for (const json& job : jobs) {
    if (is_suspended(job) != suspended || is_marked_suspended(job) != suspended)
      suspend_one(client, name_space, kube::name_of(job), suspended);
  }
}

std::optional<std::string> suspend_what_goes_on(kube::Client& client, const std::string& name_space,
                                                const RunObjects& run) {
  try {
    for (const std::string& job : jobs_going_on(run)) suspend_one(client, name_space, job, true);
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace mlk
