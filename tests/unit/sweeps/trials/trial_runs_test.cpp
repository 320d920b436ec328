// Tests trials that are separate runs: their names, their objects, and their states.
#include "sweeps/trials/trial_runs.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "sweeps/start/prepare_driven.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/trials/trial_runs");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

TEST_CASE("trial_run() names a run by its sweep and its point, and gives each further try another name") {
  CHECK(trial_run("s-abcde", "0123456789ab") == "s-abcde-01234567");
  CHECK(trial_run("s-abcde", "0123456789ab", 1) == "s-abcde-01234567");
  CHECK(trial_run("s-abcde", "0123456789ab", 0) == "s-abcde-01234567");
  const std::string second = trial_run("s-abcde", "0123456789ab", 2);
  CHECK(second.size() == std::string("s-abcde-01234567").size());
  CHECK(second != trial_run("s-abcde", "0123456789ab"));
  CHECK(second != trial_run("s-abcde", "0123456789ab", 3));
  CHECK(second !=
        trial_run("s-abcde", "0123456789ac",
                  2));  // the name of the first try omits the end of the hash, and this name does not
}

TEST_CASE("the phase of a run decides the state of its trial") {
  struct Case {
    Phase phase;
    Absence absence;
    TrialState state;
    std::string failure;
  };
  using S = TrialState;
  const std::string gone(job_is_gone);
  for (const Case& c : std::initializer_list<Case>{{Phase::succeeded, Absence::none, S::succeeded, ""},
                                                   {Phase::failed, Absence::none, S::failed, "because"},
                                                   {Phase::stopped, Absence::none, S::stopped, ""},
                                                   {Phase::running, Absence::none, S::running, ""},
                                                   {Phase::restarting, Absence::none, S::running, ""},
                                                   {Phase::starting, Absence::none, S::waiting, ""},
                                                   {Phase::scheduling, Absence::none, S::waiting, ""},
                                                   {Phase::queued, Absence::none, S::waiting, ""},
                                                   {Phase::incomplete, Absence::none, S::waiting, ""},
                                                   {Phase::incomplete, Absence::unsure, S::waiting, ""},
                                                   {Phase::incomplete, Absence::gone, S::failed, gone},
                                                   {Phase::stopped, Absence::gone, S::stopped, ""}}) {
    INFO(to_string(c.phase));
    RunStatus run;
    run.phase = c.phase;
    run.absence = c.absence;
    run.why = "because";
    Trial trial;
    read_run(run, {}, trial);
    CHECK(trial.state == c.state);
    CHECK(trial.failure == c.failure);
    CHECK(trial.tries == 1);
  }
}

TEST_CASE("read_run() copies a run's times and result to its trial, and never lowers the number of tries") {
  RunStatus run;
  run.phase = Phase::succeeded;
  run.started = Time(std::chrono::seconds(5));
  run.ended = Time(std::chrono::seconds(9));
  run.result = {{"step", 7}, {"metrics", {{"loss", 0.5}}}};
  Objective loss;
  loss.metric = "loss";
  Trial trial;
  trial.tries = 3;
  read_run(run, loss, trial);
  CHECK(trial.tries == 3);
  CHECK(trial.started == run.started);
  CHECK(trial.ended == run.ended);
  CHECK(trial.step == 7);
  CHECK(trial.objective == 0.5);
}

TEST_CASE("extract_runs() takes the objects of runs, and leaves the sweep's own Jobs and ConfigMaps") {
  const auto labelled = [](const std::string& name, const std::string& run) {
    return json{
        {"metadata", {{"name", name}, {"labels", {{"mlk.dev/run", run}, {"mlk.dev/sweep", "s-abcde"}}}}}};
  };
  const auto warning = [](const std::string& about) { return json{{"involvedObject", {{"name", about}}}}; };
  SweepObjects objects;
  objects.owner = test::owner_of("s-abcde", "s");
  objects.owner["metadata"]["labels"][labels::sweep] = "s-abcde";
  for (const char* run : {"s-abcde-one", "s-abcde-two"}) {
    objects.config_maps.push_back(test::owner_of(run, "s"));
    objects.config_maps.back()["metadata"]["labels"][labels::sweep] = "s-abcde";
  }
  objects.config_maps.push_back(labelled("s-abcde-trials-0", "s-abcde"));
  objects.jobs = {labelled("s-abcde-one-worker", "s-abcde-one"), labelled("s-abcde-trials-0", "s-abcde"),
                  labelled("s-abcde-two-worker", "s-abcde-two")};
  objects.pods = {labelled("p", "s-abcde"), labelled("q", "s-abcde-two")};
  objects.events = {warning("s-abcde-two-worker-0-x"), warning("s-abcde-two"), warning("s-abcde-trials-0"),
                    warning("s-abcde-twofold-worker")};
  const SweepObjects before = objects;
  const std::map<std::string, RunObjects> runs = extract_runs(objects);
  REQUIRE(runs.size() == 2);
  const RunObjects& two = runs.at("s-abcde-two");
  REQUIRE(two.jobs.size() == 1);
  CHECK(kube::name_of(two.jobs[0]) == "s-abcde-two-worker");
  CHECK(two.pods.size() == 1);
  REQUIRE(two.events.size() == 1);
  CHECK(two.events[0]["involvedObject"]["name"] == "s-abcde-two-worker-0-x");
  CHECK(runs.at("s-abcde-one").pods.empty());
  CHECK(runs.at("s-abcde-one").events.empty());
  REQUIRE(objects.config_maps.size() == 1);
  CHECK(kube::name_of(objects.config_maps[0]) == "s-abcde-trials-0");
  REQUIRE(objects.jobs.size() == 1);
  CHECK(kube::name_of(objects.jobs[0]) == "s-abcde-trials-0");
  REQUIRE(objects.pods.size() == 1);
  CHECK(kube::name_of(objects.pods[0]) == "p");
  CHECK(runs_of(before).size() == 2);
  CHECK(before.jobs.size() == 3);
}

namespace {

constexpr char experiment_of_runs[] =
    "name: x\nmode: allreduce\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n"
    "sweep: {parallel: 2, objective: maximize accuracy}\n";

// A driven sweep of two points. No trial has been started.
struct PreparedRuns {
  test::Sweeper sweeper{experiment_of_runs};
  kube::Client client{sweeper.cluster.config()};
  Definition sweep = sweeper.define({"lr=0.1,0.2"});
  StartRequest request = sweeper.request(sweep);
  SubmitHooks hooks = sweeper.hooks();
  std::string uid;

  PreparedRuns() {
    prepare_driven(client, request, hooks);
    uid = sweeper.cluster.ask("GET", test::config_maps_path + "/" + sweep.identity.run)["metadata"]["uid"];
  }
  TrialRuns::Created create(const std::vector<int>& numbers) {
    TrialRuns runs(client, request.name_space, "0", true, sweep, sweeper.file_context, sweeper.templates,
                   hooks);
    std::vector<TrialLine> lines;
    for (const int number : numbers) {
      const Point& point = sweep.points.at(static_cast<std::size_t>(number));
      lines.push_back({number, hash_of(point), point, {}});
    }
    return runs.create(lines, {{"metadata", {{"uid", uid}}}}, [] { return true; });
  }
  std::string name_of_run(int number) const {
    return trial_run(sweep.identity.run, hash_of(sweep.points.at(static_cast<std::size_t>(number))));
  }
};

}  // namespace

TEST_CASE("a run of a trial has the trial's number, and its objects have the sweep's label") {
  PreparedRuns made;
  const TrialRuns::Created created = made.create({0, 1});
  CHECK(created.begun == 2);
  CHECK(created.refused.empty());
  const std::string run = made.name_of_run(1), sweep = made.sweep.identity.run;
  const json owner = made.sweeper.cluster.ask("GET", test::config_maps_path + "/" + run);
  CHECK(kube::annotation_of(owner, annotations::trial) == "1");
  CHECK(kube::label_of(owner, labels::sweep) == sweep);
  REQUIRE(owner["metadata"]["ownerReferences"].size() == 1);
  CHECK(owner["metadata"]["ownerReferences"][0]["uid"] == made.uid);
  CHECK(owner["metadata"]["ownerReferences"][0]["name"] == sweep);
  const json job = made.sweeper.cluster.ask("GET", test::jobs_path + "/" + run + "-worker");
  CHECK(kube::label_of(job, labels::sweep) == sweep);
  CHECK(kube::label_of(job["spec"]["template"], labels::sweep) == sweep);
  CHECK(kube::label_of(job, labels::run) == run);
}

TEST_CASE("a trial that the cluster refuses is reported with the reason, and leaves no objects") {
  PreparedRuns made;
  const std::string refused = made.name_of_run(0);
  made.sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    if (asked.method != "POST" || !asked.path.ends_with("/jobs") ||
        asked.body.find("\"" + refused + "-worker\"") == std::string::npos)
      return std::nullopt;
    return test::refusal(403, "Forbidden", "jobs.batch is forbidden: not in this house");
  });
  const TrialRuns::Created created = made.create({0, 1});
  CHECK(created.begun == 2);
  REQUIRE(created.refused.size() == 1);
  CHECK(created.refused[0].trial.number == 0);
  CHECK(std::string(created.refused[0].why.what()).find("not in this house") != std::string::npos);
  CHECK_FALSE(made.sweeper.cluster.has("configmaps", refused));
  CHECK(made.sweeper.cluster.has("jobs", made.name_of_run(1) + "-worker"));
}

TEST_CASE("a run of an earlier sweep of the same name is not mistaken for the run of the trial") {
  PreparedRuns made;
  made.create({0});
  made.uid = "of-a-later-one";
  CHECK_THROWS_WITH_AS(
      made.create({0}),
      ("run " + made.name_of_run(0) + " of an earlier sweep of this name is still being deleted").c_str(),
      Error);
}

TEST_CASE("a point that cannot be run is reported, wherever it is in the list of points") {
  test::Sweeper sweeper(experiment_of_runs);
  kube::Client client(sweeper.cluster.config());
  for (const char* values : {"lr=fast,0.1,0.2", "lr=0.1,fast,0.2", "lr=0.1,0.2,fast"}) {
    INFO(values);
    CHECK_THROWS_WITH_AS(
        [&] {
          const Definition sweep = sweeper.define({values});
          prepare_driven(client, sweeper.request(sweep), sweeper.hooks());
        }(),
        doctest::Contains("fast"), Error);
  }
  CHECK(sweeper.cluster.names("configmaps").find("x-") == std::string::npos);
}
