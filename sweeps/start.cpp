#include "sweeps/start.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "cli/kube/objects.h"
#include "cli/render/merge.h"
#include "cli/run/facts.h"
#include "cli/run/indexes.h"
#include "cli/run/labels.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "sweeps/quota.h"
#include "sweeps/record.h"
#include "sweeps/registry.h"
#include "sweeps/trial.h"
#include "sweeps/trials_job.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

class Start {
 public:
  Start(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks)
      : client_(client),
        request_(request),
        hooks_(hooks),
        definition_(request.definition),
        job_types_(request.templates.job_types()),
        experiments_(definition_.base, job_types_, request.surroundings),
        creation_(client, request.name_space, hooks) {}

  Started run() {
    options_.name_space = request_.name_space;
    options_.version = request_.version;
    options_.local = request_.local;
    options_.identity = definition_.identity;
    options_.secret = hex(random_bytes(32));
    const Rendered rendered = render_first();
    for (const json& object : rendered.objects) Creation::check_kind(object);
    // All points, before anything is created.
    const json config = definition_.first.has_train ? runtime_config(definition_.first) : json();
    checked_ = lines_of(definition_.points, 0, config);
    const std::size_t jobs = cut_into_jobs(checked_).size();
    if (static_cast<int>(jobs) > definition_.spec.parallel) {
      throw Error(ExitCode::usage,
                  fmt::format("the points of this sweep need {} Jobs, but only {} trials may run at a time",
                              jobs, definition_.spec.parallel),
                  fmt::format("allow more with --parallel {}", jobs));
    }
    creation_.ask_what_is_allowed();
    require_quota(client_, request_.name_space);
    if (request_.dry_run) return check_on_server(rendered);
    const Creation::Owner owner = creation_.create_owner(owner_of(rendered));
    options_.owner_uid = kube::uid_of(owner.object);
    try {
      return start(owner.created);
    } catch (const Error& error) {
      const bool refused = error.code() == ExitCode::cannot_start || error.code() == ExitCode::failure;
      if (refused && owner.created) creation_.take_back(definition_.identity.run, options_.owner_uid);
      throw;
    }
  }

 private:
  Rendered render_first() const {
    return render(definition_.first, definition_.files, request_.templates, options_);
  }

  json owner_of(const Rendered& rendered) const {
    return merge(rendered.owner, owner_overlay(definition_, false));
  }

  // What a run has beside its Jobs. Trials have no peers, so there is no Service.
  static bool is_shared(const json& object) { return object["kind"] != "Job" && object["kind"] != "Service"; }

  std::vector<TrialLine> lines_of(const std::vector<Point>& points, int first_number,
                                  const json& config) const {
    const CommonPart common(definition_.base, definition_.spec.space, definition_.first, config);
    std::vector<TrialLine> lines;
    lines.reserve(points.size());
    for (const Point& point : points) {
      if (lines.size() % 256 == 0) hooks_.check_interrupted();
      TrialLine line;
      line.number = first_number + static_cast<int>(lines.size());
      line.point = point;
      line.hash = hash_of(point);
      line.delta = common.delta_of(experiments_.of(point), line.number);
      if (!line.delta.obstacle.empty()) {
        throw Error(ExitCode::usage, "this sweep needs a run for each trial, which is not supported yet: " +
                                         line.delta.obstacle);
      }
      lines.push_back(std::move(line));
    }
    return lines;
  }

  Started check_on_server(const Rendered& rendered) {
    std::vector<json> objects{owner_of(rendered)};
    for (const json& object : rendered.objects) {
      if (is_shared(object)) objects.push_back(object);
    }
    std::vector<std::vector<TrialLine>> jobs = cut_into_jobs(checked_);
    const TrialsObjects trials = render_trials(job_of(0, std::move(jobs.front()), jobs.size()),
                                               definition_.first, rendered, request_.templates);
    objects.push_back(trials.points);
    objects.push_back(trials.job);
    creation_.check_on_server(objects);
    return {definition_.identity.run, static_cast<int>(checked_.size()), 0, 0, 0};
  }

  TrialsJob job_of(int number, std::vector<TrialLine> trials, std::size_t jobs) const {
    TrialsJob job;
    job.job = number;
    job.parallel = std::max(1, definition_.spec.parallel / static_cast<int>(jobs));
    const int most = definition_.spec.max_failures.value_or(usual_failures(checked_.size()));
    job.may_fail = std::min(most, static_cast<int>(trials.size()));
    job.trials = std::move(trials);
    return job;
  }

  Started start(bool is_new) {
    SweepObjects there;
    if (!is_new) there = fetch_sweep(client_, request_.name_space, definition_.identity.run, WithPods::no);
    if (!is_new && read_record(there.owner).driven) {
      throw Error(ExitCode::failure,
                  definition_.identity.run +
                      " has trials that are runs of their own, and the cluster "
                      "would run these by itself",
                  "give the experiment another name: --set name=NAME");
    }
    const std::vector<Batch> batches = batches_of(there);
    const Rendered rendered = render_first();
    for (const json& object : rendered.objects) {
      if (is_shared(object)) creation_.create_owned(object, options_.owner_uid);
    }
    Started out{definition_.identity.run, 0, 0, 0, 0};
    complete(batches, out);
    std::vector<TrialLine> fresh = trials_to_start(batches, out);
    if (fresh.empty()) return out;
    refuse_while_running(batches, there.owner);
    if (!is_new)
      client_.patch(kube::resources::config_maps, request_.name_space, out.sweep,
                    owner_patch(definition_, out.trials, false));
    int number = batches.empty() ? 0 : batches.back().job + 1;
    std::vector<std::vector<TrialLine>> jobs = cut_into_jobs(std::move(fresh));
    const std::size_t count = jobs.size();
    for (std::vector<TrialLine>& trials : jobs) {
      out.started += static_cast<int>(trials.size());
      create(job_of(number++, std::move(trials), count));
      ++out.jobs;
    }
    return out;
  }

  // Experiment and objects are those of the Job's own first trial: only the configuration is the sweep's.
  void create(const TrialsJob& job) {
    const Experiment experiment = experiments_.of(job.trials.front().point);
    const Rendered rendered = render(experiment, definition_.files, request_.templates, options_);
    const TrialsObjects objects = render_trials(job, experiment, rendered, request_.templates);
    creation_.create_owned(objects.points, options_.owner_uid);
    creation_.create_owned(objects.job, options_.owner_uid);
  }

  // Jobs that an earlier call did not come to.
  void complete(const std::vector<Batch>& batches, Started& out) {
    for (const Batch& batch : batches) {
      if (batch.object || batch.trials.empty()) continue;
      create(job_of(batch.job, with_environment(batch.trials), 1));
      out.started += static_cast<int>(batch.trials.size());
      ++out.jobs;
    }
  }

  std::vector<TrialLine> trials_to_start(const std::vector<Batch>& batches, Started& out) {
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
    std::vector<TrialLine> fresh = request_.retry_failed ? failed_trials(batches) : std::vector<TrialLine>{};
    out.retried = static_cast<int>(fresh.size());
    std::vector<TrialLine> added = lines_of(points, next, config_on_server());
    out.trials = next + static_cast<int>(added.size());
    fresh.insert(fresh.end(), std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
    return fresh;
  }

  // The configuration of a sweep is written once: later points change that one.
  json config_on_server() {
    if (!definition_.first.has_train) return nullptr;
    const json object =
        client_.get(kube::resources::config_maps, request_.name_space, definition_.identity.run + "-config");
    return json_or_null(text_of(object, {"data", "config.json"}));
  }

  // Ascending by number; of a trial that was tried in several Jobs the last one counts.
  std::vector<TrialLine> failed_trials(const std::vector<Batch>& batches) {
    std::map<int, TrialLine> failed;
    for (const Batch& batch : batches) {
      // Those that a Job did not come to before it ended for its failures count as failed.
      if (!batch.object || !has_finished(*batch.object)) continue;
      const std::set<int> completed = parse_indexes(text_of(*batch.object, {"status", "completedIndexes"}));
      const bool complete = completed.empty() && text_of(*batch.object, {"status", "failedIndexes"}).empty();
      for (std::size_t i = 0; i < batch.trials.size(); ++i) {
        failed.erase(batch.trials[i].number);
        if (!complete && completed.count(static_cast<int>(i)) == 0)
          failed[batch.trials[i].number] = batch.trials[i];
      }
    }
    std::vector<TrialLine> out;
    for (auto& [number, line] : failed) out.push_back(std::move(line));
    return with_environment(std::move(out));
  }

  // What points.jsonl does not hold.
  std::vector<TrialLine> with_environment(std::vector<TrialLine> trials) const {
    if (definition_.first.has_train) return trials;
    const CommonPart common(definition_.base, definition_.spec.space, definition_.first, nullptr);
    for (TrialLine& trial : trials)
      trial.delta.environment = common.delta_of(experiments_.of(trial.point), trial.number).environment;
    return trials;
  }

  void refuse_while_running(const std::vector<Batch>& batches, const json& owner) {
    for (const Batch& batch : batches) {
      if (!batch.object || has_finished(*batch.object)) continue;
      if (!kube::annotation_of(owner, labels::stopped).empty()) {
        throw Error(ExitCode::failure,
                    definition_.identity.run + " is stopped, and more trials cannot be added",
                    "let it go on with: mlk resume " + definition_.identity.run);
      }
      throw Error(
          ExitCode::failure,
          fmt::format("{} still runs, and more trials cannot be added meanwhile", definition_.identity.run),
          "wait for its end with: mlk wait " + definition_.identity.run);
    }
  }

  kube::Client& client_;
  const StartRequest& request_;
  const SubmitHooks& hooks_;
  const Definition& definition_;
  const std::vector<std::string> job_types_;
  const Experiments experiments_;
  Creation creation_;
  RenderOptions options_;
  std::vector<TrialLine> checked_;
};

}  // namespace

std::string why_driven(const StartRequest& request, const SubmitHooks& hooks) {
  const Definition& definition = request.definition;
  if (definition.spec.search.kind == Search::Kind::tpe)
    return "search tpe chooses a trial by the results of those before it";
  if (definition.spec.stop.rule != EarlyStop::Rule::none) return "trials are ended early";
  if (definition.first.mode != "single")
    return "mode " + definition.first.mode + " has several processes in a trial";
  const std::vector<std::string> job_types = request.templates.job_types();
  const Experiments experiments(definition.base, job_types, request.surroundings);
  const json config = definition.first.has_train ? runtime_config(definition.first) : json();
  const CommonPart common(definition.base, definition.spec.space, definition.first, config);
  for (std::size_t i = 0; i < definition.points.size(); ++i) {
    if (i % 256 == 0) hooks.check_interrupted();
    const Delta delta = common.delta_of(experiments.of(definition.points[i]), 0);
    if (!delta.obstacle.empty()) return delta.obstacle;
  }
  return "";
}

int usual_failures(std::size_t trials) {
  constexpr std::size_t least = 3, part = 10;
  return static_cast<int>(std::max(least, (trials + part - 1) / part));
}

Started start_by_cluster(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks) {
  return Start(client, request, hooks).run();
}

}  // namespace mlk::sweeps
