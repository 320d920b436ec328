// Views of one trial, which the ledger merges: which view wins, and what it copies from the other one.
#include <array>
#include <random>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "sweeps/space/ledger.h"

TEST_SUITE_BEGIN("sweeps/space/ledger_views");

using namespace mlk::sweeps;
using nlohmann::json;

namespace {

// A random view of trial 3. The choice of values is small, so that pairs often have equal fields.
Trial ledger_random_view(std::mt19937& random) {
  const auto pick = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  const auto time = [&]() -> std::optional<mlk::Time> {
    if (pick(1) == 0) return std::nullopt;
    return mlk::Time(std::chrono::seconds(1'800'000'000 + pick(2)));
  };
  Trial trial;
  trial.number = 3;
  trial.point = {{"lr", 0.1}};
  trial.hash = hash_of(trial.point);
  trial.state = static_cast<TrialState>(pick(4));
  trial.tries = pick(2);
  trial.step = pick(2);
  if (pick(1) == 1) trial.metrics = {{"loss", pick(1)}};
  if (pick(1) == 1) trial.objective = pick(1);
  for (int i = pick(2); i > 0; --i)
    trial.curve.emplace_back(static_cast<int>(trial.curve.size()) * 10, pick(1));
  const std::array<std::string, 4> failures{"", "out of memory", "exit code 1", never_reported("loss")};
  trial.failure = failures[static_cast<std::size_t>(pick(3))];
  trial.started = time();
  trial.ended = time();
  return trial;
}

}  // namespace

TEST_CASE("combine() prefers the view with more tries, then an ended state, then more steps") {
  Trial running, ended, again;
  running.state = again.state = TrialState::running;
  ended.state = TrialState::failed;
  running.tries = ended.tries = 1;
  again.tries = 2;
  running.step = 900;
  ended.step = 500;
  CHECK(combine(running, ended).state == TrialState::failed);
  CHECK(combine(ended, again).state == TrialState::running);
  CHECK_FALSE(combine(ended, again).ended.has_value());
  Trial further = running;
  further.step = 1000;
  further.metrics = {{"loss", 1}};
  further.objective = 1;
  running.metrics = {{"loss", 2}};
  running.objective = 2;
  CHECK(combine(further, running).step == 1000);
  CHECK(combine(further, running).objective == 1);
  CHECK(combine(further, running).metrics == json{{"loss", 1}});
}

TEST_CASE("combine() fills missing values from the other view if both are of the same try") {
  Trial ended, running;
  ended.state = TrialState::succeeded;
  running.state = TrialState::running;
  ended.tries = running.tries = 1;
  running.step = 400;
  running.metrics = {{"loss", 1}};
  running.objective = 1;
  running.curve = {{100, 2}, {400, 1}};
  running.failure = "preempted";
  running.started = mlk::parse_time("2026-11-23T10:00:00Z");
  const Trial merged = combine(ended, running);
  CHECK(merged.state == TrialState::succeeded);
  CHECK(merged.step == 400);
  CHECK(merged.objective == 1);
  CHECK(merged.metrics == running.metrics);
  CHECK(merged.curve == running.curve);
  CHECK(merged.failure == "preempted");
  CHECK(merged.started == running.started);
}

TEST_CASE("combine() does not give a try the metrics of an earlier try") {
  Trial first, second;
  first.state = TrialState::failed;
  second.state = TrialState::running;
  first.tries = 1;
  second.tries = 2;
  first.step = 400;
  first.metrics = {{"loss", 1}};
  first.objective = 1;
  first.failure = "exit code 1";
  first.curve = {{400, 1}};
  const Trial merged = combine(first, second);
  CHECK(merged.step == 0);
  CHECK(merged.metrics.is_null());
  CHECK_FALSE(merged.objective.has_value());
  CHECK(merged.failure == "exit code 1");
  CHECK(merged.curve == first.curve);
}

TEST_CASE("combine() prefers a success to a failure with more tries") {
  Trial failed, succeeded;
  failed.state = TrialState::failed;
  failed.tries = 4;
  failed.metrics = {{"loss", 9}};
  failed.failure = "exit code 1";
  succeeded.state = TrialState::succeeded;
  succeeded.tries = 1;
  const Trial merged = combine(failed, succeeded);
  CHECK(merged.state == TrialState::succeeded);
  CHECK(merged.tries == 4);
  CHECK(merged.metrics.is_null());
  CHECK(merged.failure == "exit code 1");
}

TEST_CASE("combine() copies a verdict to a view of the same try, but not to a view of a later try") {
  Trial judged, again;
  judged.state = TrialState::failed;
  judged.tries = 1;
  judged.failure = never_reported("loss");
  again.state = TrialState::succeeded;
  again.tries = 2;
  CHECK(combine(judged, again).failure == "");
  CHECK(combine(again, judged).failure == "");
  again.tries = 1;  // another view of the same try
  CHECK(combine(judged, again).failure == judged.failure);
}

TEST_CASE("combine() prefers a failure with more tries to a success with a verdict") {
  Trial judged, again;
  judged.state = TrialState::succeeded;
  judged.tries = 1;
  judged.failure = diverged("loss");
  again.state = TrialState::failed;
  again.tries = 2;
  for (const std::string& failure : {never_reported("loss"), std::string("exit code 1")}) {
    again.failure = failure;
    CHECK(combine(judged, again) == again);
    CHECK(combine(again, judged) == again);
  }
  judged.objective = 0.5;  // the trial has reported a number after all, so the verdict does not count
  CHECK(combine(judged, again).state == TrialState::succeeded);
}

TEST_CASE("combine() prefers a later try with a verdict to a success without a verdict") {
  Trial first, again;
  first.state = TrialState::succeeded;
  first.tries = 1;
  again.state = TrialState::failed;
  again.tries = 2;
  again.failure = never_reported("loss");
  CHECK(combine(first, again) == again);
  CHECK(combine(again, first) == again);
}

TEST_CASE("combine() returns the same trial in any order of the views") {
  std::mt19937 random(7);
  for (int round = 0; round < 10'000; ++round) {
    const Trial a = ledger_random_view(random), b = ledger_random_view(random);
    const Trial merged = combine(a, b);
    REQUIRE(merged == combine(b, a));
    REQUIRE(combine(a, a) == a);
    REQUIRE(combine(merged, a) == merged);
    REQUIRE(combine(b, merged) == merged);
    REQUIRE(merged.curve.size() >= (a.curve.empty() && b.curve.empty() ? 0 : 1));
    const auto tells = [&](const Trial& view, const Trial& other) {
      return !view.failure.empty() && !(is_verdict(view.failure) && view.tries < other.tries);
    };
    REQUIRE((merged.failure.empty() || !a.failure.empty() || !b.failure.empty()));
    if (tells(a, b) && tells(b, a)) REQUIRE_FALSE(merged.failure.empty());
    REQUIRE(merged.tries == std::max(a.tries, b.tries));
    const auto judged = [](const Trial& view) { return is_verdict(view.failure) && !view.objective; };
    const bool any_success = a.state == TrialState::succeeded || b.state == TrialState::succeeded;
    if (!any_success) REQUIRE(merged.state != TrialState::succeeded);
    if (any_success && !judged(a) && !judged(b)) REQUIRE(merged.state == TrialState::succeeded);
    if (a.tries == b.tries) REQUIRE(has_ended(merged.state) == (has_ended(a.state) || has_ended(b.state)));
  }
}

TEST_CASE("continued() joins the reports that a trial made before a pause and after it") {
  Trial before, now;
  before.state = TrialState::running;
  before.step = 20;
  before.objective = 0.5;
  before.metrics = {{"loss", 0.5}};
  before.curve = {{10, 0.7}, {20, 0.5}};
  CHECK(continued(before, now, true).state == TrialState::waiting);
  CHECK(continued(before, now, true).curve == before.curve);
  CHECK(continued(before, now, true).objective == 0.5);
  CHECK_FALSE(continued(before, now, false).objective.has_value());
  now.curve = {{20, 0.6}, {30, 0.4}};
  now.objective = 0.4;
  CHECK(continued(before, now, true).objective == 0.4);
  CHECK(continued(before, now, true).curve == decltype(now.curve){{10, 0.7}, {20, 0.6}, {30, 0.4}});
}

TEST_CASE("combine() prefers, for the same try, an ended state, then more steps, then the later state") {
  using S = TrialState;
  struct Case {
    S a;
    std::int64_t step_of_a;
    S b;
    std::int64_t step_of_b;
    S wins;
  };
  for (const Case& c : std::initializer_list<Case>{{S::waiting, 5, S::running, 5, S::running},
                                                   {S::waiting, 6, S::running, 5, S::waiting},
                                                   {S::running, 9, S::stopped, 5, S::stopped},
                                                   {S::stopped, 5, S::failed, 5, S::failed},
                                                   {S::stopped, 6, S::failed, 5, S::stopped},
                                                   {S::failed, 9, S::succeeded, 5, S::succeeded}}) {
    Trial a, b;
    a.state = c.a;
    a.step = c.step_of_a;
    b.state = c.b;
    b.step = c.step_of_b;
    CHECK(combine(a, b).state == c.wins);
    CHECK(combine(b, a).state == c.wins);
  }
}

TEST_CASE("combine() takes the earlier start time, and fills a missing end time of an ended trial") {
  Trial ended, other;
  ended.state = TrialState::failed;
  other.state = TrialState::stopped;
  ended.tries = 2;
  other.tries = 1;
  ended.started = mlk::parse_time("2026-11-23T10:00:00Z");
  other.started = mlk::parse_time("2026-11-23T09:00:00Z");
  other.ended = mlk::parse_time("2026-11-23T11:00:00Z");
  CHECK(combine(ended, other).started == other.started);
  CHECK(combine(ended, other).ended == other.ended);
  ended.ended = mlk::parse_time("2026-11-23T10:30:00Z");
  CHECK(combine(ended, other).ended == ended.ended);
  ended.ended.reset();
  ended.state = TrialState::running;
  CHECK_FALSE(combine(ended, other).ended.has_value());
  other.started.reset();
  CHECK(combine(ended, other).started == ended.started);
  Trial before, now;
  before.started = mlk::parse_time("2026-11-23T09:00:00Z");
  now.started = mlk::parse_time("2026-11-23T10:00:00Z");
  CHECK(continued(before, now, false).started == before.started);
  CHECK(continued(now, before, false).started == before.started);
  CHECK(continued(Trial(), now, false).started == now.started);
}

TEST_CASE("combine() fills the metrics of a success from a view with no failure and at least as many tries") {
  struct Case {
    int tries;
    TrialState state;
    bool taken;
  };
  for (const Case& c : std::initializer_list<Case>{{1, TrialState::running, false},
                                                   {2, TrialState::running, true},
                                                   {3, TrialState::running, true},
                                                   {2, TrialState::stopped, true},
                                                   {2, TrialState::failed, false}}) {
    INFO(c.tries);
    Trial succeeded, other;
    succeeded.state = TrialState::succeeded;
    succeeded.tries = 2;
    other.state = c.state;
    other.tries = c.tries;
    other.step = 7;
    other.metrics = {{"loss", 1}};
    other.objective = 1;
    const Trial merged = combine(succeeded, other);
    CHECK(merged.state == TrialState::succeeded);
    CHECK(merged.metrics.is_null() == !c.taken);
    CHECK(merged.objective.has_value() == c.taken);
    CHECK(merged.step == (c.taken ? 7 : 0));
  }
}
