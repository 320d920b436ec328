#include "sweeps/start/start.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "cli/kube/objects.h"
#include "cli/render/evaluate.h"
#include "cli/render/framework.h"
#include "cli/render/merge.h"
#include "cli/render/own.h"
#include "cli/render/runtime_config.h"
#include "cli/run/change/end_pods_left.h"
#include "cli/run/facts/labels.h"
#include "cli/util/hash.h"
#include "cli/util/indexes.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "sweeps/objects/ledger_store.h"
#include "sweeps/objects/objects.h"
#include "sweeps/objects/record.h"
#include "sweeps/space/trial.h"
#include "sweeps/start/job_trials.h"
#include "sweeps/start/prepare_driven.h"
#include "sweeps/start/quota.h"
#include "sweeps/trials/control.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr int most_attempts = 20;  // to add trials while other processes add trials
constexpr int pods_kept = 12'500;  // --terminated-pod-gc-threshold of the controller manager

std::string too_few_places(std::size_t jobs, int places) {
  return fmt::format("their points need {} Jobs, and only {} trials may run at a time", jobs, places);
}

bool is_data(const json& object, const std::string& run) {
  return object["kind"] == "ConfigMap" && kube::name_of(object).starts_with(run + "-data-");
}
bool is_shared(const json& object) { return !kube::label_of(object, labels::shared).empty(); }

class Start {
 public:
  Start(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks)
      : client_(client),
        request_(request),
        hooks_(hooks),
        definition_(request.definition),
        sweep_(definition_.identity.run),
        creation_(client, request.name_space, hooks) {}

  Started run() {
    const Rendered rendered =
        render(definition_.first, definition_.files, request_.templates, render_options(request_));
    shared_ = shared_objects(rendered);
    std::vector<json> made = shared_;
    std::copy_if(rendered.objects.begin(), rendered.objects.end(), std::back_inserter(made),
                 [](const json& object) { return object["kind"] == "Job"; });
    const std::vector<kube::AccessQuestion> rights = creation_.check_kinds(
        made, name_of_template(request_.templates, "jobs/" + definition_.first.mode + ".yaml"));
    // Checks all points before anything is created.
    const json config = definition_.first.has_train ? runtime_config(definition_.first) : json();
    std::vector<TrialLine> checked = lines_of(request_, hooks_, definition_.points, 0, config);
    creation_.ask_what_is_allowed(rights);
    require_quota(client_, request_.name_space);
    if (request_.dry_run) return check_on_server(rendered, std::move(checked));
    const Creation::Stored owner = creation_.create_owner(owner_of(rendered));
    uid_ = kube::uid_of(owner.object);
    own(shared_, sweep_, uid_);
    TrialIndexes indexes(client_, request_, hooks_, uid_);
    try {
      return start(owner, indexes);
    } catch (const Error& error) {
      const bool refused = error.code() == ExitCode::cannot_start || error.code() == ExitCode::failure;
      if (refused && owner.created && !others_) {
        creation_.undo(sweep_, uid_);
      } else if (refused) {
        indexes.undo();
      }
      explain_cut_off(error, sweep_);
      throw;
    }
  }

 private:
  json owner_of(const Rendered& rendered) const {
    return merge(rendered.owner, owner_overlay(definition_, false));
  }

  // The objects of a run except its Jobs and its Service: a trial is a single process, which needs no
  // Service.
  std::vector<json> shared_objects(const Rendered& rendered) const {
    std::vector<json> out = data_objects(definition_, rendered);
    for (const json& object : rendered.objects) {
      const bool of_run = object["kind"] == "Job" || object["kind"] == "Service";
      if (!of_run && !is_data(object, sweep_) && !is_shared(object)) out.push_back(object);
    }
    return out;
  }

  Started check_on_server(const Rendered& rendered, std::vector<TrialLine> trials) {
    std::vector<json> objects{owner_of(rendered)};
    objects.insert(objects.end(), shared_.begin(), shared_.end());
    const int count = static_cast<int>(trials.size());
    std::vector<std::vector<TrialLine>> jobs = cut_into_jobs(std::move(trials), request_.most_points_bytes);
    const TrialIndexes indexes(client_, request_, hooks_, "");
    TrialsObjects first = indexes.objects_of({0, std::move(jobs.front()), definition_.spec.parallel, 0});
    objects.push_back(std::move(first.points));
    objects.push_back(std::move(first.job));
    creation_.check_on_server(objects);
    return {.sweep = sweep_, .trials = count};
  }

  Started start(const Creation::Stored& owner, TrialIndexes& indexes) {
    SweepObjects there;
    there.owner = owner.object;
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      hooks_.check_interrupted();
      if (!owner.created || attempt > 0)
        there = fetch_sweep(client_, request_.name_space, sweep_, WithPods::no);
      if (std::optional<Started> done = add_to(there, indexes)) return *done;
    }
    throw Error(ExitCode::cluster, "others add trials to " + sweep_ + " all the time", "type it again");
  }

  // Returns nothing if another process has added trials since `there` was read.
  std::optional<Started> add_to(const SweepObjects& there, TrialIndexes& indexes) {
    if (read_record(there.owner).driven) return driven("it is driven since its Jobs could not do all trials");
    std::vector<Batch> batches = batches_of(there);
    for (const json& object : shared_) creation_.create_owned(object, uid_);
    Started out{.sweep = sweep_};
    std::vector<std::vector<TrialLine>> jobs =
        cut_into_jobs(trials_to_start(there, batches, out), request_.most_points_bytes);
    if (!jobs.empty()) {
      refuse_while_stopped(batches, there.owner);
      const std::string why = why_no_room(batches, jobs);
      if (!why.empty() && out.retried > 0) {
        throw Error(ExitCode::failure,
                    sweep_ + " still runs, and trials that have failed cannot be started again meanwhile",
                    "wait for its end with: mlk wait " + sweep_);
      }
      if (!why.empty()) return driven(why);
    }
    if (out.retried > 0) end_pods_left(client_, request_.name_space, there.owner, hooks_);
    int number = batches.empty() ? 0 : batches.back().job + 1;
    for (std::vector<TrialLine>& trials : jobs) {
      if (!indexes.write_down(number, trials)) {
        others_ = true;
        return std::nullopt;
      }
      batches.push_back({number++, std::move(trials), true, {}});
    }
    for (const Batch* batch : indexes.start_missing(batches)) {
      out.started += static_cast<int>(batch->trials.size());
      ++out.jobs;
    }
    write_count(there.owner, out);
    indexes.mark_made(batches, there.owner);  // last, since this call changes the version of the owner
    return out;
  }

  Started driven(const std::string& why) {
    Started out = prepare_driven(client_, request_, hooks_);
    out.driven = why;
    return out;
  }

  // Why the cluster cannot also run these trials without a driver; empty if it can. While Jobs are
  // unfinished, there must be places for all new trials at once, since a Job that starts with a low
  // parallelism would keep this parallelism.
  std::string why_no_room(const std::vector<Batch>& batches,
                          const std::vector<std::vector<TrialLine>>& jobs) const {
    const int free = definition_.spec.parallel - places_taken(batches);
    std::size_t trials = 0, needed = jobs.size();
    for (const std::vector<TrialLine>& job : jobs) trials += job.size();
    for (const Batch& batch : batches) needed += batch.by_cluster && !batch.object && !batch.made ? 1 : 0;
    if (any_job_goes_on(batches) && free < static_cast<int>(trials))
      return "it still runs, and no trials can be added to a Job";
    return free < static_cast<int>(needed) ? too_few_places(needed, free) : "";
  }

  std::vector<TrialLine> trials_to_start(const SweepObjects& there, const std::vector<Batch>& batches,
                                         Started& out) {
    std::set<std::string> known;
    int next = 0;
    for (const Batch& batch : batches) {
      for (const TrialLine& trial : batch.trials) {
        known.insert(trial.hash);
        next = std::max(next, trial.number + 1);
      }
    }
    std::vector<Point> points;
    for (const Point& point : definition_.points) {
      if (known.count(hash_of(point)) == 0) points.push_back(point);
    }
    std::vector<TrialLine> fresh =
        request_.retry_failed ? failed_trials(there, batches) : std::vector<TrialLine>{};
    out.retried = static_cast<int>(fresh.size());
    std::vector<TrialLine> added = lines_of(request_, hooks_, points, next, config_on_server());
    for (const TrialLine& trial : added) {
      if (!trial.delta.obstacle.empty())
        throw Error(ExitCode::usage, "a Job cannot run all of these trials: " + trial.delta.obstacle);
    }
    out.trials = next + static_cast<int>(added.size());
    fresh.insert(fresh.end(), std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
    return fresh;
  }

  // mlk writes the configuration of a sweep once. Later points are patches of this configuration.
  json config_on_server() {
    if (!definition_.first.has_train) return nullptr;
    const json object = client_.get(kube::resources::config_maps, request_.name_space, sweep_ + "-config");
    return json_or_null(text_of(object, {"data", "config.json"}));
  }

  // The failed trials, ascending by number. If a trial was tried in several Jobs, the last Job decides.
  std::vector<TrialLine> failed_trials(const SweepObjects& there, const std::vector<Batch>& batches) const {
    std::set<int> succeeded;       // according to the ledger
    std::map<int, int> condemned;  // trials with a verdict, and the try of the verdict
    for (const Trial& known : read_ledger(sweep_, there.config_maps)) {
      if (is_verdict(known.failure)) condemned[known.number] = known.tries;
      if (known.state == TrialState::succeeded) succeeded.insert(known.number);
    }
    std::map<int, TrialLine> failed;
    for (const Batch& batch : batches) {
      for (const TrialLine& trial : batch.trials) {
        failed.erase(trial.number);
        // If a Job is gone, only the ledger shows how its trials ended.
        if (batch.gone && succeeded.count(trial.number) == 0) failed[trial.number] = trial;
      }
      // A Job may end early because of failures. Then the trials that it has not started count as failed.
      if (!batch.object || !has_finished(*batch.object)) continue;
      const Indexes completed =
          Indexes::valid_parts_of(text_of(*batch.object, {"status", "completedIndexes"}));
      const bool complete = completed.empty() && text_of(*batch.object, {"status", "failedIndexes"}).empty();
      for (std::size_t i = 0; i < batch.trials.size(); ++i) {
        const TrialLine& trial = batch.trials[i];
        const auto verdict = condemned.find(trial.number);
        const bool bad = verdict != condemned.end() && verdict->second >= trial.attempt;
        if (bad || (!complete && !completed.contains(static_cast<int>(i)))) failed[trial.number] = trial;
      }
    }
    std::vector<TrialLine> out;
    for (auto& [number, line] : failed) out.push_back(with_environment(std::move(line)));
    return out;
  }

  // Adds the environment, which points.jsonl does not contain.
  TrialLine with_environment(TrialLine trial) const {
    if (!definition_.first.has_train)
      trial.delta = lines_of(request_, hooks_, {trial.point}, trial.number, nullptr)[0].delta;
    return trial;
  }

  void refuse_while_stopped(const std::vector<Batch>& batches, const json& owner) const {
    if (!any_job_goes_on(batches) || kube::annotation_of(owner, annotations::stopped).empty()) return;
    throw Error(ExitCode::failure, sweep_ + " is stopped, and more trials cannot be added",
                "let it go on with: mlk resume " + sweep_);
  }

  // Writes the number of trials into the owner. Call this function after creating all objects, so that the
  // owner stays unchanged after a refusal. If two processes add trials, the larger number is right.
  void write_count(json owner, const Started& out) {
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      const int known = read_record(owner).trials;
      json patch = owner_patch(record_of(definition_, out.trials, false));
      const bool told = text_of(owner, {"data", "sweep"}) == text_of(patch, {"data", "sweep"});
      if (told || known > out.trials || (known == out.trials && out.started == 0)) return;
      if (patch_as_read(client_, request_.name_space, owner, std::move(patch))) return;
      owner = client_.get(kube::resources::config_maps, request_.name_space, sweep_);
      if (read_record(owner).driven) return;
    }
  }

  kube::Client& client_;
  const StartRequest& request_;
  const SubmitHooks& hooks_;
  const Definition& definition_;
  const std::string& sweep_;
  Creation creation_;
  std::vector<json> shared_;  // the objects that all trials share
  std::string uid_;           // of the sweep's owner
  bool others_ = false;       // other processes have added trials at the same time
};

}  // namespace

std::vector<TrialLine> lines_of(const StartRequest& request, const SubmitHooks& hooks,
                                const std::vector<Point>& points, int first_number, const json& config) {
  const Definition& definition = request.definition;
  const TemplateNames template_names = request.templates.names();
  const Experiments experiments(definition.base, definition.spec.space, template_names, request.file_context);
  const CommonPart common(definition.base, definition.spec.space, definition.first, config);
  std::vector<TrialLine> lines;
  lines.reserve(points.size());
  for (const Point& point : points) {
    if (lines.size() % 256 == 0) hooks.check_interrupted();
    const int number = first_number + static_cast<int>(lines.size());
    lines.push_back({number, hash_of(point), point, common.delta_of(experiments.of(point), number)});
  }
  return lines;
}

RenderOptions render_options(const StartRequest& request) {
  RenderOptions options;
  options.name_space = request.name_space;
  options.version = request.version;
  options.local = request.local;
  options.identity = request.definition.identity;
  options.secret = hex(random_bytes(32));
  return options;
}

std::vector<json> data_objects(const Definition& definition, const Rendered& rendered) {
  std::vector<json> out;
  for (json object : rendered.objects) {
    if (!is_data(object, rendered.run) && !is_shared(object)) continue;
    if (!is_shared(object))
      object["metadata"]["name"] = definition.files_of + kube::name_of(object).substr(rendered.run.size());
    out.push_back(std::move(object));
  }
  return out;
}

std::string why_driven(const StartRequest& request, const SubmitHooks& hooks) {
  const Definition& definition = request.definition;
  if (definition.spec.search.kind == Search::Kind::tpe)
    return "search tpe chooses a trial by the results of earlier trials";
  if (definition.spec.stop.rule != EarlyStop::Rule::none) return "trials are ended early";
  const auto& roles = definition.first.roles;
  const Framework framework =
      load_framework(request.templates, definition.first.effective.value("framework", ""));
  if (std::any_of(roles.begin(), roles.end(),
                  [&](const auto& role) { return is_launched(definition.first, framework, role.second); }))
    return "a launcher starts the program";
  if (definition.first.mode != "single")
    return "mode " + definition.first.mode + " has several processes in a trial";
  const json config = definition.first.has_train ? runtime_config(definition.first) : json();
  std::vector<TrialLine> lines = lines_of(request, hooks, definition.points, 0, config);
  for (const TrialLine& line : lines) {
    if (!line.delta.obstacle.empty()) return line.delta.obstacle;
  }
  const std::size_t jobs = cut_into_jobs(std::move(lines), request.most_points_bytes).size();
  const int places = definition.spec.parallel;
  return static_cast<int>(jobs) > places ? too_few_places(jobs, places) : "";
}

std::string why_results_may_vanish(int trials) {
  if (trials <= pods_kept) return "";
  return fmt::format("clusters keep only {} ended pods, and the unread results of the others are lost",
                     pods_kept);
}

Started start_by_cluster(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks) {
  return Start(client, request, hooks).run();
}

}  // namespace mlk::sweeps
