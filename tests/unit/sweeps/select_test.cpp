#include "sweeps/select.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/util/error.h"

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

std::vector<Trial> some_trials() {
  std::vector<Trial> trials(3);
  for (int i = 0; i < 3; ++i) {
    Trial& trial = trials[static_cast<std::size_t>(i)];
    trial.number = i;
    trial.point = {{"train.optimizer.lr", 0.1 * (i + 1)}, {"train.model.hidden", json::array({64 * i})}};
    trial.state = i == 2 ? TrialState::failed : TrialState::succeeded;
    trial.metrics = {{"accuracy", 0.5 + 0.1 * i}};
    trial.objective = 0.5 + 0.1 * i;
    trial.step = 100 * i;
  }
  trials[2].failure = "exit code 3";
  trials[1].started = Time{};
  trials[1].ended = Time{} + std::chrono::seconds(30);
  return trials;
}

std::string numbers_of(const std::string& expression) {
  const Space space{{{"train.optimizer.lr", Parameter::Kind::choice, {1}, 0, 0, {}},
                     {"train.model.hidden", Parameter::Kind::choice, {1}, 0, 0, {}}},
                    {}};
  std::string numbers;
  for (const Trial& trial : select(some_trials(), space, expression)) numbers += std::to_string(trial.number);
  return numbers;
}

}  // namespace

TEST_CASE("trials are selected by parameters, metrics and all that the table shows") {
  CHECK(numbers_of("") == "012");
  CHECK(numbers_of("lr < 0.25") == "01");
  CHECK(numbers_of("train.optimizer.lr >= 0.2 && state == succeeded") == "1");
  CHECK(numbers_of("accuracy > 0.55") == "12");
  CHECK(numbers_of("objective > 0.55 and step <= 100") == "1");
  CHECK(numbers_of("state == Failed or trial == 0") == "02");
  CHECK(numbers_of("duration == 30") == "1");
  CHECK(numbers_of("failure != null") == "2");
  CHECK(numbers_of("not failure == null") == "2");
  CHECK(numbers_of("hidden == [64]") == "1");
}

TEST_CASE("a name or a state that nothing has is refused at its place") {
  CHECK_THROWS_WITH_AS(numbers_of("lrr < 1"), doctest::Contains("--where:1:1: "), Error);
  CHECK_THROWS_WITH_AS(numbers_of("state == Suceeded"), doctest::Contains("--where:1:10: "), Error);
}
