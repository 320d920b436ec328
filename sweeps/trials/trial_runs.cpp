#include "sweeps/trials/trial_runs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>

#include "cli/kube/objects.h"
#include "cli/render/evaluate.h"
#include "cli/render/merge.h"
#include "cli/render/own.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/owner.h"
#include "cli/run/read/find.h"
#include "cli/util/hash.h"
#include "cli/util/json_path.h"
#include "sweeps/trials/observe.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr std::size_t most_at_once = 32;  // trials that are being created
constexpr std::chrono::milliseconds look_every{100};
constexpr std::size_t hash_in_name = 8;
constexpr std::size_t hash_digits_in_label = 16;

json sweep_label(const std::string& sweep) { return {{"metadata", {{"labels", {{labels::sweep, sweep}}}}}}; }

// Makes the owner of a trial's run an object of the sweep.
void give_owner_to_sweep(json& owner, const std::string& sweep, const std::string& sweep_uid, int number) {
  owner = merge(std::move(owner), sweep_label(sweep));
  owner["metadata"]["annotations"][annotations::trial] = std::to_string(number);
  owner["metadata"]["ownerReferences"] = owner_references(sweep, sweep_uid);
}

void give_jobs_to_sweep(std::vector<json>& objects, const std::string& sweep) {
  const json label = sweep_label(sweep);
  for (json& object : objects) {
    if (object["kind"] != "Job") continue;
    object = merge(std::move(object), label);
    object["spec"]["template"] = merge(std::move(object["spec"]["template"]), label);
  }
}

}  // namespace

std::string trial_run(const std::string& sweep, const std::string& hash, int attempt) {
  if (attempt <= 1) return sweep + "-" + hash.substr(0, hash_in_name);
  return sweep + "-" + sha256_base32(hash + "/" + std::to_string(attempt), hash_in_name);
}

std::map<std::string, RunObjects> runs_of(const SweepObjects& objects) {
  SweepObjects copy = objects;
  return extract_runs(copy);
}

std::map<std::string, RunObjects> extract_runs(SweepObjects& objects) {
  // The sweep's own Jobs and their pods stay in `objects`.
  const auto is_of_run = [sweep = kube::name_of(objects.owner)](const json& object) {
    return kube::label_of(object, labels::run) != sweep;
  };
  std::vector<json> owners, jobs, pods;
  move_if(objects.config_maps, owners, is_trial);
  move_if(objects.jobs, jobs, is_of_run);
  move_if(objects.pods, pods, is_of_run);
  std::map<std::string, RunObjects> runs;
  for (RunObjects& run : group_by_run(std::move(owners), std::move(jobs), std::move(pods))) {
    const std::string name = kube::name_of(run.owner);
    runs[name] = std::move(run);
  }
  // An event is about an object of a run: "<run>-worker", "<run>-worker-0-abcde".
  for (const json& event : objects.events) {
    const std::string about = text_of(event, {"involvedObject", "name"});
    for (std::size_t dash = about.find('-'); dash != std::string::npos; dash = about.find('-', dash + 1)) {
      if (const auto run = runs.find(about.substr(0, dash)); run != runs.end())
        run->second.events.push_back(event);
    }
  }
  return runs;
}

void read_run(const RunStatus& run, const std::optional<Objective>& objective, Trial& trial) {
  switch (run.phase) {
    case Phase::succeeded:
      trial.state = TrialState::succeeded;
      break;
    case Phase::failed:
      trial.state = TrialState::failed;
      trial.failure = run.why;
      break;
    case Phase::stopped:
      trial.state = TrialState::stopped;
      break;
    case Phase::running:
    case Phase::restarting:
      trial.state = TrialState::running;
      break;
    case Phase::incomplete:
    case Phase::queued:
    case Phase::scheduling:
    case Phase::starting:
      trial.state = TrialState::waiting;
      break;
  }
  if (run.absence == Absence::gone && run.phase != Phase::stopped) {
    trial.state = TrialState::failed;
    trial.failure = job_is_gone;
  }
  trial.tries = std::max(trial.tries, 1);
  trial.started = run.started;
  trial.ended = run.ended;
  read_result(run.result, objective, trial);
}

TrialRuns::TrialRuns(kube::Client& client, const std::string& name_space, const std::string& version,
                     bool local, const Definition& definition, const FileContext& file_context,
                     const Templates& templates, const SubmitHooks& hooks)
    : client_(client),
      name_space_(name_space),
      version_(version),
      local_(local),
      definition_(definition),
      templates_(templates),
      hooks_{.note =
                 [this, note = hooks.note](const std::string& text) {
                   const std::lock_guard lock(hooks_mutex_);
                   note(text);
                 },
             .check_interrupted =
                 [this, check = hooks.check_interrupted] {
                   const std::lock_guard lock(hooks_mutex_);
                   check();
                 }},
      template_names_(templates.names()),
      experiments_(definition.base, definition.spec.space, template_names_, file_context) {}

RenderOptions TrialRuns::options_of(const TrialLine& trial) const {
  RenderOptions options;
  options.name_space = name_space_;
  options.version = version_;
  options.local = local_;
  options.files_of = definition_.files_of;
  options.secret = hex(random_bytes(32));
  // Uses only the part of the sweep's hash that the label contains, since with --same the rest of the hash is
  // unknown.
  options.identity =
      Identity{trial_run(definition_.identity.run, trial.hash, trial.attempt),
               sha256_hex(definition_.identity.hash.substr(0, hash_digits_in_label) + trial.hash)};
  return options;
}

std::vector<kube::AccessQuestion> TrialRuns::check_one(const Point& point) const {
  const Rendered rendered = render(experiments_.of(point), definition_.files, templates_,
                                   options_of({0, hash_of(point), point, {}}));
  return Creation(client_, name_space_, hooks_)
      .check_kinds(rendered.objects,
                   name_of_template(templates_, "jobs/" + definition_.first.mode + ".yaml"));
}

std::vector<kube::AccessQuestion> TrialRuns::check(const std::vector<Point>& points) {
  if (points.empty()) return {};
  const std::size_t parts = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, points.size());
  std::atomic<bool> stopping{false};
  const auto check_part = [&](std::size_t part) {
    const std::size_t begin = points.size() * part / parts, end = points.size() * (part + 1) / parts;
    for (std::size_t i = std::max<std::size_t>(begin, 1); i < end && !stopping; ++i) {
      if (i % 256 == 0) hooks_.check_interrupted();
      (void)check_one(points[i]);
    }
  };
  std::vector<kube::AccessQuestion> rights = check_one(points.front());  // the same for all points
  std::vector<std::future<void>> checks;
  for (std::size_t part = 0; part < parts; ++part)
    checks.push_back(std::async(std::launch::async, check_part, part));
  try {
    for (std::future<void>& check : checks) check.get();
  } catch (...) {
    stopping = true;
    throw;
  }
  return rights;
}

void TrialRuns::create_one(const TrialLine& trial, const json& sweep_owner) {
  const std::string& sweep = definition_.identity.run;
  const std::string sweep_uid = kube::uid_of(sweep_owner);
  Creation creation(client_, name_space_, hooks_);
  Rendered rendered = render(experiments_.of(trial.point), definition_.files, templates_, options_of(trial));
  give_owner_to_sweep(rendered.owner, sweep, sweep_uid, trial.number);
  if (const std::string submitter = annotation_text(submitter_of(sweep_owner)); !submitter.empty())
    rendered.owner["metadata"]["annotations"][annotations::submitter] = submitter;
  const Creation::Stored owner = creation.create_owner(rendered.owner);
  if (!has_owner(owner.object, sweep_uid))
    throw Error(ExitCode::cluster,
                "run " + rendered.run + " of an earlier sweep of this name is still being deleted");
  own(rendered.objects, rendered.run, kube::uid_of(owner.object));
  give_jobs_to_sweep(rendered.objects, sweep);
  try {
    creation.create_all(owner.object, rendered.objects).wait();
  } catch (const Error& error) {
    const bool refused = error.code() == ExitCode::cannot_start || error.code() == ExitCode::failure;
    if (refused && owner.created) creation.undo(rendered.run, kube::uid_of(owner.object));
    throw;
  }
}

TrialRuns::Created TrialRuns::create(const std::vector<TrialLine>& trials, const json& sweep,
                                     const std::function<bool()>& go_on) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopping{false};
  std::mutex mutex;  // guards `refused`
  std::vector<RefusedTrial> refused;
  const auto work = [&] {
    while (!stopping) {
      const std::size_t i = next++;
      if (i >= trials.size()) return;
      try {
        create_one(trials[i], sweep);
      } catch (const Error& error) {
        if (error.code() != ExitCode::cannot_start) throw;
        const std::lock_guard lock(mutex);
        refused.push_back({trials[i], error});
      }
    }
  };
  std::vector<std::future<void>> workers;
  for (std::size_t i = 0; i < std::min(most_at_once, trials.size()); ++i)
    workers.push_back(std::async(std::launch::async, work));
  std::exception_ptr first;
  for (std::future<void>& worker : workers) {
    while (worker.wait_for(look_every) == std::future_status::timeout && !stopping) {
      try {
        stopping = !go_on();
      } catch (...) {
        stopping = true;
        first = std::current_exception();
      }
    }
    try {
      worker.get();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  return {std::min<std::size_t>(next, trials.size()), std::move(refused)};
}

}  // namespace mlk::sweeps
