#include "sweeps/objects/trials_job.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/render/check_objects.h"
#include "cli/render/containers.h"
#include "cli/render/evaluate.h"
#include "cli/render/merge.h"
#include "cli/render/outputs.h"
#include "cli/render/pod.h"
#include "cli/util/indexes.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "sweeps/space/trial.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr char points_folder[] = "/etc/mlk/points";
constexpr char index_field[] = "metadata.annotations['batch.kubernetes.io/job-completion-index']";

// Changes the failure rules of a run. An unchanged rule would end the Job with all its trials, but a changed
// rule ends only one trial.
json rules_for_trials(json rules) {
  for (json& rule : rules) {
    if (rule["action"] == "FailJob") rule["action"] = "FailIndex";
  }
  return rules;
}

std::string with_host(std::string text, const std::string& host, const std::string& other) {
  for (std::size_t at = text.find(host); at != text.npos; at = text.find(host, at + other.size()))
    text.replace(at, host.size(), other);
  return text;
}

json field(const std::string& name, const std::string& path) {
  return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", path}}}}}};
}

// MLK_RANK is 0 in every trial, and MLK_TRIAL_INDEX is the index of the trial in its Job. Worker 0 is the
// trial itself, at the address of its pod, since trials have no Service.
json environment_of(const json& of_run, const std::string& run, bool has_train) {
  json out = json::array({field("MLK_TRIAL_INDEX", index_field), field("MLK_TRIAL_HOST", "status.podIP")});
  const std::string first_worker = fmt::format("{0}-worker-0.{0}", run), host = "$(MLK_TRIAL_HOST)";
  for (json variable : of_run) {
    if (variable["name"] == "MLK_RANK") variable = {{"name", "MLK_RANK"}, {"value", "0"}};
    if (variable["name"] == "MLK_ADDRESS") variable["value"] = fmt::format("{}:{}", host, pod_port);
    if (variable.contains("value"))
      variable["value"] = with_host(variable["value"].get<std::string>(), first_worker, host);
    out.push_back(std::move(variable));
  }
  out.push_back({{"name", "MLK_POINTS"},
                 {"value", fmt::format("{}/points.{}", points_folder, has_train ? "jsonl" : "env")}});
  return out;
}

const json& worker_job(const Rendered& rendered) {
  return *std::find_if(rendered.objects.begin(), rendered.objects.end(),
                       [](const json& object) { return object["kind"] == "Job"; });
}

}  // namespace

std::size_t TrialLine::bytes() const { return points_line(*this).size() + delta.environment.size() + 2; }

std::string points_line(const TrialLine& trial) {
  json line = {{"trial", trial.number}, {"hash", trial.hash}, {"parameters", trial.point}};
  if (!trial.delta.config.is_null()) line["config"] = trial.delta.config;
  return json_text(line);
}

std::vector<TrialLine> parse_points(std::string_view text) {
  std::vector<TrialLine> trials;
  for (const std::string& line : split(text, '\n')) {
    const json value = json_or_null(line);
    if (!value.is_object() || !value.contains("trial") || !value["trial"].is_number_integer() ||
        !value.contains("parameters") || !value["parameters"].is_object())
      continue;
    const auto number = value["trial"].get<std::int64_t>();
    if (number < 0 || number >= most_indexes_of_job * 100LL) continue;
    TrialLine trial;
    trial.number = static_cast<int>(number);
    for (const auto& [path, of_point] : value["parameters"].items()) trial.point[path] = of_point;
    trial.hash = hash_of(trial.point);
    trial.delta.config = value.value("config", json());
    trials.push_back(std::move(trial));
  }
  return trials;
}

std::vector<std::vector<TrialLine>> cut_into_jobs(std::vector<TrialLine> trials, std::size_t most_bytes) {
  std::vector<std::vector<TrialLine>> jobs;
  std::size_t bytes = 0;
  for (TrialLine& trial : trials) {
    const std::size_t more = trial.bytes();
    if (jobs.empty() || bytes + more > most_bytes || jobs.back().size() == most_indexes) {
      jobs.emplace_back();
      bytes = 0;
    }
    bytes += more;
    jobs.back().push_back(std::move(trial));
  }
  return jobs;
}

TrialsObjects render_trials(const TrialsJob& job, const Experiment& experiment, const FileContents& files,
                            const Rendered& rendered, const Templates& templates) {
  const json& of_run = worker_job(rendered);
  json trials = {{"job", job.job}, {"count", job.trials.size()}, {"may_fail", job.may_fail}};
  trials["parallel"] = std::min<std::size_t>(static_cast<std::size_t>(job.parallel), job.trials.size());
  trials["retries"] = of_run["spec"]["backoffLimitPerIndex"];
  std::vector<int> numbers;
  std::string points, environment;
  for (const TrialLine& trial : job.trials) {
    numbers.push_back(trial.number);
    points += points_line(trial) + "\n";
    if (!experiment.has_train) environment += trial.delta.environment + "\n";
  }
  trials["numbers"] = Indexes(numbers).ranges();
  trials["points"] = std::move(points);
  trials["environment"] = std::move(environment);
  trials["deadline"] = experiment.time_limit ? json(experiment.time_limit->count()) : json();
  trials["command"] =
      experiment.has_train
          ? json()
          : json(prepared(
                experiment, files.code,
                trial_command(experiment.command, outputs_words(experiment.effective, files.outputs_claim))));
  trials["failure_rules"] =
      rules_for_trials(of_run["spec"].value("podFailurePolicy", json::object()).value("rules", json()));
  json scope = {{"run", rendered.run}, {"name", experiment.name}, {"trials", std::move(trials)}};
  scope["namespace"] = rendered.owner["metadata"].value("namespace", json());

  const auto shape = [&](const char* name) {
    return evaluate(*parse_template(templates, fmt::format("shapes/{}.yaml", name)), scope);
  };
  TrialsObjects out;
  out.points = shape("points");
  json pod = of_run["spec"]["template"];
  json* program = main_container(pod["spec"]);
  if (program == nullptr)
    throw Error(ExitCode::usage,
                "a patch or a template has left no container `main` in the pods: it runs the trial");
  json& variables = (*program)["env"];
  variables = environment_of(variables, rendered.run, experiment.has_train);
  scope["trials"]["pod"] = merge(std::move(pod), shape("trial-pod"));
  out.job = shape("trials");
  const json patch = experiment.effective.value("patch", json::object());
  if (patch.contains("job")) out.job = merge(std::move(out.job), patch["job"]);
  for (const json* object : {&out.points, &out.job}) check_head(*object, "shapes");
  check_job(out.job, rendered.run, "shapes/trials.yaml");
  return out;
}

}  // namespace mlk::sweeps
