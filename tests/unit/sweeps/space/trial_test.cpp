#include "sweeps/space/trial.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("sweeps/space/trial");

using namespace mlk::sweeps;

TEST_CASE("each state of a trial has its own word, and three states are final") {
  struct Case {
    TrialState state;
    const char* word;
    bool ended;
  };
  for (const Case& c : std::initializer_list<Case>{{TrialState::waiting, "Waiting", false},
                                                   {TrialState::running, "Running", false},
                                                   {TrialState::succeeded, "Succeeded", true},
                                                   {TrialState::failed, "Failed", true},
                                                   {TrialState::stopped, "Stopped", true}}) {
    INFO(std::string(c.word));
    CHECK(to_string(c.state) == c.word);
    CHECK(parse_trial_state(c.word) == c.state);
    CHECK(has_ended(c.state) == c.ended);
  }
  for (const char* word : {"", "waiting", "Stoppe", "Failed "})
    CHECK_FALSE(parse_trial_state(word).has_value());
}

TEST_CASE("a verdict names the metric, and the line of the log that comes nearest to a report") {
  CHECK(never_reported("loss") == "never reported loss");
  CHECK(never_reported("loss", "the nearest line is 'x'") == "never reported loss: the nearest line is 'x'");
  CHECK(diverged("loss") == "reported no finite loss");
  CHECK(is_verdict("never reported loss: the nearest line is 'x'"));
  CHECK(is_verdict(diverged("loss")));
  for (const char* other : {"it never reported loss", "exit code 1", ""}) CHECK_FALSE(is_verdict(other));
  CHECK_FALSE(is_verdict("reported no finite"));
}

TEST_CASE("the hash of a point has 12 letters and digits, and is the same for 1 and 1.0") {
  const std::string hash = hash_of({{"lr", 1}});
  CHECK(hash.size() == 12);
  CHECK(hash == hash_of({{"lr", 1.0}}));
  CHECK(hash != hash_of({{"lr", 1.5}}));
  CHECK(hash != hash_of({{"momentum", 1}}));
  CHECK(hash != hash_of({{"lr", "1"}}));
}
