// Tests the marks by which early stopping, stop and resume change the run of one trial.
#include <string>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/change/suspend.h"
#include "cli/run/facts/labels.h"
#include "cli/util/json_path.h"
#include "sweeps/trials/control.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("sweeps/trials/marks");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

// The run of a trial, with one Job.
struct MarkedRun {
  test::FakeCluster cluster;
  kube::Client client{cluster.config()};

  explicit MarkedRun(const json& annotations = json::object()) {
    json owner = test::owner_of("x-abcde");
    owner["metadata"]["annotations"] = annotations;
    cluster.ask("POST", test::config_maps_path, owner);
    cluster.ask("POST", test::jobs_path, test::job_of("x-abcde"));
  }
  RunObjects run() {
    RunObjects out;
    out.owner = cluster.ask("GET", test::config_maps_path + "/x-abcde");
    out.jobs = {cluster.ask("GET", test::jobs_path + "/x-abcde-worker")};
    return out;
  }
  std::string mark(const char* annotation) { return kube::annotation_of(run().owner, annotation); }
  bool suspended() { return at_path(run().jobs[0], {"spec", "suspend"}) == true; }
};

json paused_at(const std::string& paused, const std::string& until) {
  return {{annotations::paused, paused},
          {annotations::until, until},
          {annotations::stopped, "2026-11-23T10:00:00Z"}};
}

}  // namespace

TEST_CASE("rung_of() reads a whole number of at least 0, and returns 0 for any other text") {
  const auto rung = [](const std::string& text) {
    return rung_of({{"metadata", {{"annotations", {{annotations::until, text}}}}}}, annotations::until);
  };
  CHECK(rung("40") == 40);
  CHECK(rung("0") == 0);
  CHECK(rung("-3") == 0);
  CHECK(rung("") == 0);
  CHECK(rung("far") == 0);
  CHECK(rung_of(json::object(), annotations::until) == 0);
}

TEST_CASE("let_train() writes a new limit of steps, but not if another process has changed the owner") {
  MarkedRun trial;
  const RunObjects before = trial.run();
  let_train(trial.client, "default", before, 40);
  CHECK(trial.mark(annotations::until) == "40");
  let_train(trial.client, "default", before, 80);  // the next round decides again
  CHECK(trial.mark(annotations::until) == "40");
  trial.cluster.before([](const local::Request& asked) -> std::optional<local::Answer> {
    if (asked.method != "PATCH") return std::nullopt;
    return test::refusal(403, "Forbidden", "no");
  });
  CHECK_THROWS_AS(let_train(trial.client, "default", trial.run(), 80), kube::ApiError);
}

TEST_CASE("mark_paused() marks a trial with its rung, and apply_pause() suspends its Jobs") {
  MarkedRun trial;
  mark_paused(trial.client, "default", trial.run(), 10);
  CHECK(trial.mark(annotations::paused) == "10");
  CHECK(trial.mark(annotations::until) == "10");
  CHECK(trial.mark(annotations::stopped) != "");
  CHECK_FALSE(trial.suspended());
  apply_pause(trial.client, "default", trial.run());
  CHECK(trial.suspended());
  CHECK(trial.mark(annotations::paused) == "10");
}

TEST_CASE("apply_pause() resumes the Jobs of a paused trial that may train further") {
  struct Case {
    json marks;
    bool suspended;
    const char* paused;
  };
  json early = paused_at("10", "20");
  early[annotations::stopped_early] = "stopped early by asha at step 10";
  for (const Case& c : std::initializer_list<Case>{{paused_at("10", "20"), false, ""},
                                                   {paused_at("10", "10"), true, "10"},
                                                   {paused_at("10", "5"), true, "10"},
                                                   {early, true, "10"},  // the trial was ended for good
                                                   {{{annotations::until, "20"}}, true, ""}}) {
    INFO(c.marks.dump());
    MarkedRun trial(c.marks);
    trial.cluster.ask("PATCH", test::jobs_path + "/x-abcde-worker", {{"spec", {{"suspend", true}}}},
                      "application/merge-patch+json");
    apply_pause(trial.client, "default", trial.run());
    CHECK(trial.suspended() == c.suspended);
    CHECK(trial.mark(annotations::paused) == c.paused);
    CHECK((trial.mark(annotations::stopped) == "") == (*c.paused == '\0'));
  }
}

TEST_CASE("stop_trial() marks a trial with the time of the stop, and with a reason if it ends for good") {
  MarkedRun trial;
  stop_trial(trial.client, "default", trial.run());
  CHECK(trial.suspended());
  CHECK(parse_time(trial.mark(annotations::stopped)).has_value());
  CHECK(trial.mark(annotations::stopped_early) == "");
  CHECK(goes_on_later(trial.run().owner));
  MarkedRun earlier(json{{annotations::stopped, "2026-11-23T10:00:00Z"}});
  stop_trial(earlier.client, "default", earlier.run(), "stopped early by median at step 5");
  CHECK(earlier.mark(annotations::stopped) == "2026-11-23T10:00:00Z");
  CHECK(earlier.mark(annotations::stopped_early) == "stopped early by median at step 5");
  CHECK_FALSE(goes_on_later(earlier.run().owner));
  resume_run(trial.client, "default", trial.run());
  CHECK_FALSE(trial.suspended());
  CHECK(trial.mark(annotations::stopped) == "");
}

TEST_CASE("fail_trial() stops a trial for good, and marks it with the reason") {
  for (const bool was_stopped : {false, true}) {
    INFO(was_stopped);
    MarkedRun trial(was_stopped ? json{{annotations::stopped, "2026-11-23T10:00:00Z"}} : json::object());
    fail_trial(trial.client, "default", trial.run(), "no such image");
    CHECK(trial.suspended());
    CHECK(trial.mark(annotations::cannot_start) == "no such image");
    CHECK(trial.mark(annotations::stopped) != "");
    CHECK((trial.mark(annotations::stopped) == "2026-11-23T10:00:00Z") == was_stopped);
    CHECK_FALSE(goes_on_later(trial.run().owner));
  }
}

TEST_CASE("goes_on_later() is true for a stopped run, but not if it is paused or has ended for good") {
  const auto goes_on = [](const json& annotations) {
    return goes_on_later({{"metadata", {{"annotations", annotations}}}});
  };
  const json stopped = {{annotations::stopped, "2026-11-23T10:00:00Z"}};
  CHECK(goes_on(stopped));
  CHECK_FALSE(goes_on(json::object()));
  for (const char* mark : {annotations::stopped_early, annotations::cannot_start, annotations::paused}) {
    json marked = stopped;
    marked[mark] = "10";
    CHECK_FALSE(goes_on(marked));
  }
}
