#include "sweeps/start/prepare_driven.h"

#include <algorithm>
#include <map>
#include <set>

#include "cli/kube/objects.h"
#include "cli/render/evaluate.h"
#include "cli/render/merge.h"
#include "cli/render/own.h"
#include "cli/run/change/end_pods_left.h"
#include "cli/run/facts/labels.h"
#include "sweeps/objects/lease.h"
#include "sweeps/objects/record.h"
#include "sweeps/start/quota.h"
#include "sweeps/trials/observe.h"
#include "sweeps/trials/trial_runs.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

// The rights that a driver needs in addition to the rights for starting a run.
std::vector<kube::AccessQuestion> rights_of_driver() {
  std::vector<kube::AccessQuestion> rights;
  for (const char* verb : {"get", "create", "patch"}) rights.push_back({verb, lease_resource, ""});
  for (const kube::Resource* resource :
       {&kube::resources::config_maps, &kube::resources::jobs, &kube::resources::pods})
    rights.push_back({"watch", *resource, ""});
  for (const kube::Resource* resource : {&kube::resources::config_maps, &kube::resources::jobs})
    rights.push_back({"patch", *resource, ""});
  return rights;
}

// Registers another try, in a separate run, for trials that have failed, and for trials that were stopped
// because too many trials had failed. Their earlier runs stay. Returns the number of new tries.
int register_again(kube::Client& client, const StartRequest& request, const SweepObjects& objects,
                   const SweepStatus& status) {
  std::map<int, int> attempts;
  for (const Batch& batch : batches_of(objects)) {
    for (const TrialLine& trial : batch.trials) attempts[trial.number] = trial.attempt;
  }
  std::vector<TrialLine> again;
  for (const Trial& trial : status.trials) {
    const bool given_up =
        trial.state == TrialState::stopped && trial.failure.empty() && status.phase == Phase::failed;
    if (trial.state == TrialState::failed || given_up)
      again.push_back({trial.number, trial.hash, trial.point, {}, attempts[trial.number] + 1});
  }
  const std::size_t written =
      append_points(client, request.name_space, objects, again, request.most_points_bytes);
  if (written == 0 && !again.empty()) {
    throw Error(ExitCode::failure, kube::name_of(objects.owner) + " was changed meanwhile",
                "type the same command again");
  }
  if (written == again.size()) return static_cast<int>(written);
  // Trials that are registered for another try do not count as failed any more.
  const SweepObjects rest =
      fetch_sweep(client, request.name_space, kube::name_of(objects.owner), WithPods::no);
  return static_cast<int>(written) +
         register_again(client, request, rest, observe_sweep(rest, std::chrono::system_clock::now()));
}

}  // namespace

Started prepare_driven(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks) {
  const Definition& definition = request.definition;
  TrialRuns runs(client, request.name_space, request.version, request.local, definition, request.file_context,
                 request.templates, hooks);
  std::vector<kube::AccessQuestion> rights = runs.check(definition.points);
  if (!request.detached) {
    const std::vector<kube::AccessQuestion> of_driver = rights_of_driver();
    rights.insert(rights.end(), of_driver.begin(), of_driver.end());
  }
  Creation creation(client, request.name_space, hooks);
  const Rendered rendered =
      render(definition.first, definition.files, request.templates, render_options(request));
  // A search without points chooses them later. All its trials need the same rights as the first trial.
  if (definition.points.empty()) {
    const std::vector<kube::AccessQuestion> of_trials = creation.check_kinds(
        rendered.objects, name_of_template(request.templates, "jobs/" + definition.first.mode + ".yaml"));
    rights.insert(rights.end(), of_trials.begin(), of_trials.end());
  }
  creation.ask_what_is_allowed(rights);
  require_quota(client, request.name_space);
  const json wanted = merge(rendered.owner, owner_overlay(definition, true));
  if (request.dry_run) {
    creation.check_on_server({wanted});
    return {.sweep = definition.identity.run, .trials = planned_trials(definition)};
  }
  const Creation::Stored owner = creation.create_owner(wanted);
  const std::string uid = kube::uid_of(owner.object);
  std::vector<json> data = data_objects(definition, rendered);
  own(data, rendered.run, uid);
  try {
    for (const json& object : data) creation.create_owned(object, uid);
  } catch (const Error& error) {
    const bool refused = error.code() == ExitCode::cannot_start || error.code() == ExitCode::failure;
    if (refused && owner.created) creation.undo(rendered.run, uid);
    throw;
  }
  Started out{.sweep = definition.identity.run, .trials = planned_trials(definition)};
  if (owner.created) {
    out.started = out.trials;
    return out;
  }
  const SweepObjects objects = fetch_sweep(client, request.name_space, definition.identity.run, WithPods::no);
  const SweepStatus status = observe_sweep(objects, std::chrono::system_clock::now());
  std::set<std::string> known;
  for (const Trial& trial : status.trials) known.insert(trial.hash);
  for (const Point& point : definition.points) out.started += known.insert(hash_of(point)).second ? 1 : 0;
  if (definition.spec.search.kind == Search::Kind::tpe)
    out.started = std::max(0, planned_trials(definition) - static_cast<int>(status.trials.size()));
  out.trials = static_cast<int>(status.trials.size()) + out.started;
  if (request.retry_failed) {
    end_pods_left(client, request.name_space, objects.owner, hooks);
    out.retried = register_again(client, request, objects, status);
  }
  out.started += out.retried;
  json patch = owner_patch(record_of(definition, out.trials, true));
  // An earlier command may have registered trials for another try before it was cut off.
  const bool any_waits = std::any_of(status.trials.begin(), status.trials.end(),
                                     [](const Trial& trial) { return trial.state == TrialState::waiting; });
  if (out.started > 0 || any_waits) patch["metadata"]["annotations"][annotations::phase] = nullptr;
  client.patch(kube::resources::config_maps, request.name_space, out.sweep, patch);
  return out;
}

}  // namespace mlk::sweeps
