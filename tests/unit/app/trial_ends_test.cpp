// Tests that each ended trial of a sweep is reported once.
#include "cli/views/trial_ends.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("app/trial_ends");

namespace {

using mlk::sweeps::TrialState;

struct Looks {
  mlk::sweeps::SweepStatus status;
  mlk::TrialEnds ends;

  explicit Looks(int trials = 2) {
    status.record.objective = mlk::sweeps::Objective{};
    for (int i = 0; i < trials; ++i) {
      mlk::sweeps::Trial trial;
      trial.number = i;
      trial.state = TrialState::running;
      status.trials.push_back(trial);
    }
  }
  mlk::sweeps::Trial& trial(std::size_t number) { return status.trials.at(number); }
  // The numbers of the reported trials.
  std::vector<int> look(bool last = false) {
    std::vector<int> numbers;
    for (const mlk::sweeps::Trial* trial : ends.since_last(status, last)) numbers.push_back(trial->number);
    return numbers;
  }
};

using Numbers = std::vector<int>;

}  // namespace

TEST_CASE("the end of a trial is reported once if the trial ended after the first poll") {
  Looks looks(3);
  looks.trial(0).state = TrialState::failed;
  CHECK(looks.look().empty());
  looks.trial(1).state = TrialState::failed;
  looks.trial(2).state = TrialState::stopped;
  CHECK(looks.look() == Numbers{1, 2});
  CHECK(looks.look().empty());
  CHECK(looks.look(true).empty());
  looks.trial(1).state = TrialState::running;  // tried again
  CHECK(looks.look().empty());
  looks.trial(1).state = TrialState::failed;
  CHECK(looks.look() == Numbers{1});
}

TEST_CASE("a succeeded trial is reported as soon as the objective is known") {
  Looks looks;
  CHECK(looks.look().empty());
  looks.trial(0).state = looks.trial(1).state = TrialState::succeeded;
  for (int i = 0; i < 9; ++i) CHECK(looks.look().empty());
  looks.trial(0).objective = 0.5;
  CHECK(looks.look() == Numbers{0});
  looks.trial(1).state = TrialState::failed;
  looks.trial(1).failure = "never reported accuracy";
  CHECK(looks.look() == Numbers{1});
  CHECK(looks.look(true).empty());
}

TEST_CASE("a succeeded trial without a known objective is reported at the last poll") {
  Looks looks(1);
  CHECK(looks.look().empty());
  looks.trial(0).state = TrialState::succeeded;
  CHECK(looks.look().empty());
  CHECK(looks.look(true) == Numbers{0});
  Looks plain(1);
  plain.status.record.objective.reset();
  CHECK(plain.look().empty());
  plain.trial(0).state = TrialState::succeeded;
  CHECK(plain.look() == Numbers{0});
}

TEST_CASE("a trial that appears after the first poll is reported even if it has already ended") {
  Looks looks(0);
  CHECK(looks.look().empty());
  mlk::sweeps::Trial trial;
  trial.state = TrialState::failed;
  looks.status.trials.push_back(trial);
  CHECK(looks.look() == Numbers{0});
}
