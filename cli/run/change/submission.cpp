#include "cli/run/change/submission.h"

#include <algorithm>
#include <set>

#include "cli/kube/objects.h"
#include "cli/render/evaluate.h"
#include "cli/render/own.h"
#include "cli/run/change/end_pods_left.h"
#include "cli/run/change/ownerless.h"
#include "cli/run/facts/deciding_job.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/pods_left.h"
#include "cli/run/read/find.h"
#include "cli/run/state/checkpoints.h"
#include "cli/run/state/status.h"
#include "cli/util/hash.h"
#include "cli/util/number.h"

namespace mlk {
namespace {

using json = nlohmann::json;

Rendered render_attempt(const SubmitRequest& request, int attempt) {
  RenderOptions options;
  options.name_space = request.name_space;
  options.version = request.version;
  options.attempt = attempt;
  options.local = request.local;
  options.local_gpus = request.local_gpus;
  options.secret = hex(random_bytes(32));
  return render(request.experiment, request.files, request.templates, options);
}

class Submission {
 public:
  Submission(kube::Client& client, const SubmitRequest& request, const SubmitHooks& hooks)
      : client_(client), request_(request), hooks_(hooks), creation_(client, request.name_space, hooks) {}

  Submitted run(Rendered rendered) {
    creation_.ask_what_is_allowed(creation_.check_kinds(rendered.objects, template_name()));
    if (const int attempt = choose_attempt(rendered); attempt != 1)
      rendered = render_attempt(request_, attempt);
    if (!request_.checkpoints.empty())
      rendered.owner["metadata"]["annotations"][annotations::checkpoints] = request_.checkpoints;
    if (request_.dry_run) return check(rendered);
    if (before_) end_pods_left(client_, request_.name_space, *before_, hooks_);
    const Creation::Stored owner = creation_.create_owner(rendered.owner);
    owner_uid_ = kube::uid_of(owner.object);
    own(rendered.objects, rendered.run, owner_uid_, checkpoint_folder_of(owner.object));
    Submitted result{rendered.run, SubmitOutcome::created};
    if (!owner.created) {
      const std::optional<SubmitOutcome> present = already_there(rendered);
      if (present) return {rendered.run, *present, std::move(found_)};
      result.outcome = SubmitOutcome::completed;
    }
    try {
      const std::future<kube::Answer> marked =
          creation_.create_all(owner.object, rendered.objects, left_behind_);
      creation_.restore_shared(rendered.objects, owner_uid_);
      marked.wait();
    } catch (const Error& error) {
      // If Ctrl-C or another error that is no refusal ends the submit, the created objects stay: the same
      // command, typed again, completes the run.
      const bool refused = error.code() == ExitCode::cannot_start || error.code() == ExitCode::failure;
      if (refused && owner.created) {
        creation_.undo(rendered.run, owner_uid_);
        explain_ownerless(error, rendered.run);
      }
      explain_cut_off(error, rendered.run);
      throw;
    }
    return result;
  }

 private:
  // Throws the error again, with a hint, if an earlier run of this name has left objects, but its owner is
  // gone.
  void explain_ownerless(const Error& error, const std::string& run) {
    if (error.code() != ExitCode::failure) return;
    try {
      if (find_ownerless(client_, request_.name_space, run).empty()) return;
    } catch (const kube::ApiError&) {
      return;  // the first error says more
    }
    throw Error(error.code(), error.what(),
                "the object is left from an earlier run: only the ConfigMap of this run was deleted; delete "
                "the rest with: mlk delete " +
                    run);
  }

  // The dry run: a submit without effects.
  Submitted check(const Rendered& rendered) {
    if (before_)
      hooks_.note("pods of run " + kube::name_of(*before_) + " would be ended first: their Job is gone");
    std::vector<json> objects{rendered.owner};
    objects.insert(objects.end(), rendered.objects.begin(), rendered.objects.end());
    creation_.check_on_server(objects);
    const std::optional<json> owner =
        client_.find(kube::resources::config_maps, request_.name_space, rendered.run);
    const bool ours =
        owner && kube::label_of(*owner, labels::hash) == kube::label_of(rendered.owner, labels::hash);
    if (!ours) return {rendered.run, SubmitOutcome::created};
    owner_uid_ = kube::uid_of(*owner);
    const SubmitOutcome outcome = already_there(rendered).value_or(SubmitOutcome::completed);
    return {rendered.run, outcome, std::move(found_)};
  }

  std::string template_name() const {
    return name_of_template(request_.templates, "jobs/" + request_.experiment.mode + ".yaml");
  }

  // Returns the number of the newest run of exactly this experiment; 1 if there is no such run. With --again,
  // returns the next number if that newest run has ended or is stopped.
  int choose_attempt(const Rendered& first) {
    const kube::ListOptions same{
        .label_selector = std::string(labels::hash) + "=" + kube::label_of(first.owner, labels::hash),
        .metadata_only = true};
    int newest = 0;
    for (const json& owner : client_.list(kube::resources::config_maps, request_.name_space, same).items) {
      const std::string name = kube::name_of(owner);
      if (name == first.run) newest = std::max(newest, 1);
      if (name.starts_with(first.run + "-"))
        newest = std::max(newest, parse_int(std::string_view(name).substr(first.run.size() + 1), 0));
    }
    if (newest == 0) return 1;
    if (!request_.again) return newest;
    const std::string name = newest == 1 ? first.run : first.run + "-" + std::to_string(newest);
    RunObjects objects = fetch_run(client_, request_.name_space, name);
    const RunStatus status = observe(objects, now());
    if (!is_over(status) && status.phase != Phase::stopped) return newest;
    if (status.pods_left > 0) before_ = std::move(objects.owner);
    return newest + 1;
  }

  // The outcome if the run has all its objects, or is over or stopped. nullopt if objects are missing, since
  // an earlier submit was cut off.
  std::optional<SubmitOutcome> already_there(const Rendered& rendered) {
    const RunObjects objects = fetch_run(client_, request_.name_space, rendered.run);
    found_ = observe(objects, now());
    left_behind_ = jobs_with_pods_left(objects);
    if (is_over(*found_)) return SubmitOutcome::ended;
    if (found_->phase == Phase::stopped) return SubmitOutcome::stopped;
    for (const json& object : rendered.objects) {
      const bool goes_on = is_job(object) && left_behind_.count(kube::name_of(object)) > 0;
      if (!goes_on && !creation_.find_owned(object, owner_uid_)) return std::nullopt;
    }
    if (!request_.dry_run) creation_.mark_created(objects.owner, rendered.objects).wait();
    return SubmitOutcome::running;
  }

  static Time now() { return std::chrono::system_clock::now(); }

  kube::Client& client_;
  const SubmitRequest& request_;
  const SubmitHooks& hooks_;
  Creation creation_;
  std::string owner_uid_;
  std::optional<RunStatus> found_;  // of a run that existed before this submit
  std::optional<json> before_;      // the owner of the run before this one, if its Job has left pods behind
  std::set<std::string> left_behind_;  // the gone Jobs of this run whose pods still run: not made again
};

}  // namespace

Rendered render_run(const SubmitRequest& request) { return render_attempt(request, 1); }

Submitted submit_run(kube::Client& client, const SubmitRequest& request, Rendered rendered,
                     const SubmitHooks& hooks) {
  return Submission(client, request, hooks).run(std::move(rendered));
}

}  // namespace mlk
