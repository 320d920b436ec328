// Writes the report of an invented sweep to standard output, always the same one: to look at, and for
// tests/e2e/test_report.py.
//
// usage: report_sample [TRIALS]
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>

#include "sweeps/results/report.h"
#include "sweeps/space/axis.h"

namespace {

using namespace mlk::sweeps;

double noise(int trial, int salt) {
  const double x = std::sin(trial * 12.9898 + salt * 78.233) * 43758.5453;
  return x - std::floor(x);
}

Space sample_space() {
  using Kind = Parameter::Kind;
  Space space;
  space.parameters = {
      {"train.optimizer.type", Kind::choice, {"sgd", "adam", "adamw"}, 0, 0, {}},
      {"train.optimizer.lr", Kind::log_uniform, {}, 1e-5, 1, {}},
      {"train.optimizer.momentum", Kind::uniform, {}, 0, 0.99, {{"train.optimizer.type", {"sgd"}}}},
      {"train.data.batch", Kind::choice, {32, 64, 128, 256}, 0, 0, {}},
      {"train.model.hidden", Kind::choice, {{128}, {256}, {256, 256}}, 0, 0, {}},
      {"train.seed", Kind::integer, {}, 1, 5, {}},
      {"workers.count", Kind::choice, {1, 2, 4, 8}, 0, 0, {}},
  };
  return space;
}

Point sample_point(const Space& space, int number) {
  Point point;
  const std::vector<Axis> axes = axes_of(space);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Parameter& parameter = axes[i].parameter();
    if (holds(parameter.when, point))
      point[parameter.path] = axes[i].value_at(noise(number, static_cast<int>(i)));
  }
  return point;
}

TrialState sample_state(int number, int trials) {
  if (number >= trials - 3) return TrialState::waiting;
  if (number >= trials - 6) return TrialState::running;
  if (number % 17 == 5) return TrialState::failed;
  return number % 6 == 4 ? TrialState::stopped : TrialState::succeeded;
}

Trial sample_trial(const Space& space, int number, int trials, mlk::Time begin) {
  Trial trial;
  trial.number = number;
  trial.point = sample_point(space, number);
  trial.hash = hash_of(trial.point);
  trial.state = sample_state(number, trials);
  if (trial.state == TrialState::waiting) return trial;
  trial.tries = number % 11 == 0 ? 2 : 1;
  trial.started = mlk::later(begin, number * 20);

  const double lr = std::log10(trial.point.at("train.optimizer.lr").get<double>());
  const bool sgd = trial.point.at("train.optimizer.type") == "sgd";
  const double ideal = sgd ? -1 : -3;
  const double off = (lr - ideal) * (lr - ideal) * 0.05 +
                     (sgd ? 0.1 * (0.9 - trial.point.at("train.optimizer.momentum").get<double>()) : 0);
  const double end = std::max(0.1, 0.985 - off - 0.02 * noise(number, 20));
  const int last =
      trial.state == TrialState::succeeded ? 3000 : 300 + static_cast<int>(noise(number, 21) * 1500);
  for (int step = 50; step <= last; step += 50) {
    const double learned = 1 - std::exp(-step / (250 + 300 * noise(number, 22)));
    trial.curve.emplace_back(step,
                             0.1 + (end - 0.1) * learned + 0.01 * (noise(number * 100 + step, 23) - 0.5));
  }
  trial.step = last;
  trial.objective = trial.curve.back().second;
  const double workers = trial.point.at("workers.count").get<double>();
  const double seconds = 40 + last * 0.2 * (0.9 + 0.2 * noise(number, 24)) / std::pow(workers, 0.85);
  trial.metrics = {{"accuracy", *trial.objective},
                   {"loss", 2.3 * (1 - *trial.objective)},
                   {"samples_per_s", 9000 * std::pow(workers, 0.85)}};
  if (has_ended(trial.state)) trial.ended = mlk::later(*trial.started, static_cast<std::int64_t>(seconds));
  if (trial.state == TrialState::failed) {
    trial.failure =
        number % 2 == 1
            ? "worker/1 was killed: it took more memory than its limit of 256Mi"
            : "image </script><script>document.title='owned'</script> <!-- \xe2\x80\xa8 <img src=x>";
    if (number % 3 == 0) trial.objective.reset();
  }
  return trial;
}

}  // namespace

int main(int argc, char** argv) {
  const int trials = argc > 1 ? std::clamp(std::atoi(argv[1]), 0, 100'000) : 120;
  ReportData data;
  data.title = "digits-search";
  data.name_space = "research";
  data.description = "random search, 8 at once, median stopping";
  data.objective.goal = Objective::Goal::maximize;
  data.objective.metric = "accuracy";
  data.space = sample_space();
  const mlk::Time begin = *mlk::parse_time("2026-11-20T08:00:00Z");
  for (int number = 0; number < trials; ++number)
    data.trials.push_back(sample_trial(data.space, number, trials, begin));
  data.made = mlk::later(begin, trials * 20 + 300);
  data.version = "0.1.0";
  std::cout << report_html(data);
}
