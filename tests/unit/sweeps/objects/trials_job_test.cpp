#include "sweeps/objects/trials_job.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/render/own.h"
#include "cli/render/runtime_config.h"
#include "cli/run/facts/labels.h"
#include "cli/util/indexes.h"
#include "sweeps/search/definition.h"
#include "sweeps/space/trial.h"

TEST_SUITE_BEGIN("sweeps/objects/trials_job");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

struct RenderedTrials {
  Definition sweep;
  TrialsObjects objects;
};

RenderedTrials render_of(const std::string& text, const std::vector<std::string>& words) {
  RenderedTrials out{define_sweep({"x.yaml", "", text}, {}, words, Templates()), {}};
  RenderOptions options;
  options.name_space = "ns";
  options.identity = out.sweep.identity;
  const Rendered rendered = render(out.sweep.first, {}, Templates(), options);
  const FileContext file_context;
  const TemplateNames template_names = Templates().names();
  const Experiments experiments(out.sweep.base, out.sweep.spec.space, template_names, file_context);
  const json config = out.sweep.first.has_train ? runtime_config(out.sweep.first) : json();
  const CommonPart common(out.sweep.base, out.sweep.spec.space, out.sweep.first, config);
  TrialsJob job{.job = 2, .trials = {}, .parallel = 7, .may_fail = 1};
  for (const Point& point : out.sweep.points) {
    const int number = static_cast<int>(job.trials.size()) + 10;
    job.trials.push_back({number, hash_of(point), point, common.delta_of(experiments.of(point), number)});
  }
  out.objects = render_trials(job, out.sweep.first, out.sweep.files, rendered, Templates());
  for (json* object : {&out.objects.points, &out.objects.job}) own(*object, rendered.run, "1234abcd-rest");
  return out;
}

json variable_of(const json& job, const std::string& name) {
  for (const json& variable : job["spec"]["template"]["spec"]["containers"][0]["env"]) {
    if (variable["name"] == name) return variable;
  }
  return nullptr;
}

constexpr char train_text[] =
    "name: x\nmode: single\nimage: i\ntime_limit: 5m\nrestart: {retries: 2}\n"
    "train: {data: {path: /d}, steps: 1}\n";
constexpr char run_text[] =
    "name: x\nmode: single\nimage: i\nrun: echo ${sweep.word} $HOME\n"
    "patch: {job: {metadata: {annotations: {own: a}}}}\n";

}  // namespace

TEST_CASE("a Job of trials has one index and one line of points for each trial") {
  const RenderedTrials rendered = render_of(train_text, {"lr=0.1,0.2,0.3"});
  const json& job = rendered.objects.job;
  const std::string name = rendered.sweep.identity.run + "-trials-2";
  CHECK(job["metadata"]["name"] == name);
  CHECK(job["metadata"]["labels"][labels::sweep] == rendered.sweep.identity.run);
  CHECK(job["metadata"]["annotations"][annotations::trials] == "10-12");
  CHECK(job["metadata"]["ownerReferences"][0]["uid"] == "1234abcd-rest");
  CHECK(job["spec"]["completions"] == 3);
  CHECK(job["spec"]["parallelism"] == 3);  // not more than the number of trials
  CHECK(job["spec"]["backoffLimitPerIndex"] == 2);
  CHECK(job["spec"]["maxFailedIndexes"] == 1);
  CHECK_FALSE(job["spec"].contains("successPolicy"));
  CHECK_FALSE(job["spec"].contains("activeDeadlineSeconds"));
  CHECK(job["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 300);
  CHECK(rendered.objects.points["metadata"]["name"] == name);
  const std::vector<TrialLine> trials =
      parse_points(rendered.objects.points["data"]["points.jsonl"].get<std::string>());
  REQUIRE(trials.size() == 3);
  CHECK(trials[1].number == 11);
  CHECK(trials[1].point == rendered.sweep.points[1]);
  CHECK(trials[1].delta.config == json{{"optimizer", {{"lr", 0.2}}}});
  CHECK(trials[1].hash == hash_of(trials[1].point));
}

TEST_CASE("an exit code that forbids a retry ends only its trial, and the Job continues") {
  const json rules = render_of(train_text, {"lr=0.1,0.2"}).objects.job["spec"]["podFailurePolicy"]["rules"];
  REQUIRE(rules.size() == 2);
  CHECK(rules[0]["action"] == "Ignore");
  CHECK(rules[1]["action"] == "FailIndex");
  CHECK(rules[1]["onExitCodes"]["values"] == json{64, 65, 66, 67});
  CHECK(rules[1]["onExitCodes"]["containerName"] == "main");
}

TEST_CASE("a trial with `train:` has rank 0, and reads its values from points.jsonl") {
  const json job = render_of(train_text, {"lr=0.1,0.2"}).objects.job;
  const json& variables = job["spec"]["template"]["spec"]["containers"][0]["env"];
  CHECK(variables[0]["name"] == "MLK_TRIAL_INDEX");  // before the variables that refer to it
  CHECK(variable_of(job, "MLK_RANK")["value"] == "0");
  CHECK_FALSE(variable_of(job, "MLK_RANK").contains("valueFrom"));
  CHECK(variable_of(job, "MLK_POINTS")["value"] == "/etc/mlk/points/points.jsonl");
  CHECK(variable_of(job, "MLK_ADDRESS")["value"] == "$(MLK_TRIAL_HOST):7070");
  CHECK(variable_of(job, "MLK_SEEDS_WORKER")["value"] == "$(MLK_TRIAL_HOST):7070");
  CHECK(job["spec"]["template"]["spec"]["containers"][0]["command"] == json{"mlk-runtime"});
  CHECK(job["spec"]["template"]["metadata"]["labels"][labels::role] == "trial");
}

TEST_CASE("a trial with `framework: torch` has WORLD_SIZE 1, and its own pod as MASTER_ADDR") {
  const json job = render_of(std::string(run_text) + "framework: torch\n", {"word=a,b"}).objects.job;
  CHECK(variable_of(job, "MASTER_ADDR")["value"] == "$(MLK_TRIAL_HOST)");
  CHECK(variable_of(job, "RANK")["value"] == "$(MLK_RANK)");
  CHECK(variable_of(job, "WORLD_SIZE")["value"] == "1");
}

TEST_CASE("a trial with `run:` starts its program by sh, and its Job has the user's patches") {
  const RenderedTrials rendered = render_of(run_text, {"word=a,b"});
  const json& job = rendered.objects.job;
  const json& command = job["spec"]["template"]["spec"]["containers"][0]["command"];
  CHECK(command[0] == "sh");
  CHECK(command.back() == "echo a $$HOME");
  CHECK(variable_of(job, "MLK_POINTS")["value"] == "/etc/mlk/points/points.env");
  CHECK(job["metadata"]["annotations"]["own"] == "a");
  CHECK(
      rendered.objects.points["data"]["points.env"] ==
      "export MLK_TRIAL=10; set -- sh -c 'echo a $HOME'\nexport MLK_TRIAL=11; set -- sh -c 'echo b $HOME'\n");
}

TEST_CASE("cut_into_jobs() divides the trials, in their order, into as few Jobs as possible") {
  std::vector<TrialLine> trials(most_indexes + 1);
  for (std::size_t i = 0; i < trials.size(); ++i) trials[i].number = static_cast<int>(i);
  const auto jobs = cut_into_jobs(trials);
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].size() == most_indexes);
  CHECK(jobs[1][0].number == most_indexes);
  std::vector<TrialLine> large(3);
  for (TrialLine& trial : large) trial.delta.environment.assign(most_points_bytes / 2 - 100, 'x');
  CHECK(cut_into_jobs(large).size() == 2);
  CHECK(cut_into_jobs({}).empty());
}

TEST_CASE("parse_points() skips a line that is not a trial") {
  CHECK(parse_points("").empty());
  CHECK(
      parse_points("rubbish\n[1]\n{}\n{\"trial\":\"1\",\"parameters\":{}}\n{\"trial\":-1,\"parameters\":{}}\n"
                   "{\"trial\":1e30,\"parameters\":{}}\n{\"trial\":1,\"parameters\":[]}\n")
          .empty());
  CHECK(parse_points("{\"trial\":3,\"parameters\":{\"a\":1}}").size() == 1);
}

TEST_CASE(
    "points_line() writes a trial with fixed keys, and leaves out values that the trial does not have") {
  TrialLine trial;
  trial.number = 3;
  trial.point = {{"a", 1}};
  trial.hash = "h";
  CHECK(points_line(trial) == R"({"hash":"h","parameters":{"a":1},"trial":3})");
  CHECK(trial.bytes() == points_line(trial).size() + 2);
  trial.delta.config = {{"steps", 2}};
  trial.delta.environment = "export X=1";
  CHECK(points_line(trial) == R"({"config":{"steps":2},"hash":"h","parameters":{"a":1},"trial":3})");
  CHECK(trial.bytes() == points_line(trial).size() + 10 + 2);
  const std::vector<TrialLine> read = parse_points(points_line(trial));
  REQUIRE(read.size() == 1);
  CHECK(read[0].delta.config == trial.delta.config);
  CHECK(read[0].hash == hash_of(trial.point));  // also if the line has another hash
  CHECK(read[0].attempt == 1);
}

TEST_CASE("parse_points() skips a point if its trial number is too large or not whole") {
  const auto count = [](const std::string& number) {
    return parse_points("{\"trial\":" + number + ",\"parameters\":{}}").size();
  };
  CHECK(count("0") == 1);
  const long long most = most_indexes_of_job * 100LL;
  CHECK(count(std::to_string(most - 1)) == 1);
  CHECK(count(std::to_string(most)) == 0);
  CHECK(count("1.5") == 0);
}

TEST_CASE("cut_into_jobs() gives a trial its own Job if the trial is larger than the limit") {
  std::vector<TrialLine> trials(5);
  for (std::size_t i = 0; i < trials.size(); ++i) trials[i].number = static_cast<int>(i);
  const std::size_t line = trials[0].bytes();
  const auto sizes = [&](std::size_t most_bytes) {
    std::string out;
    for (const auto& job : cut_into_jobs(trials, most_bytes)) out += std::to_string(job.size()) + " ";
    return out;
  };
  CHECK(sizes(5 * line) == "5 ");
  CHECK(sizes(2 * line) == "2 2 1 ");
  CHECK(sizes(2 * line - 1) == "1 1 1 1 1 ");
  CHECK(sizes(1) == "1 1 1 1 1 ");
}
