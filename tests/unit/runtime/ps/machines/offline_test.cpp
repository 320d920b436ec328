// Steps that a worker makes by itself.
#include "runtime/ps/machines/offline.h"

#include <doctest/doctest.h>

#include "tests/unit/runtime/worker_job.h"

TEST_SUITE_BEGIN("runtime/ps/machines/offline");

using namespace mlk::rt;
using namespace mlk::test;

namespace {

struct LoneWorker : WorkerJob {
  explicit LoneWorker(bool sync) {
    config.data.batch = 4;
    config.optimizer = {.lr = 0.1, .momentum = 0.9};
    config.steps = 100;
    config.consistency.sync = sync;
    config.workers = {3, 1};
  }
};

std::vector<float> weights_of(Trainer& trainer) {
  const auto parameters = trainer.model().parameters();
  return {parameters.begin(), parameters.end()};
}

}  // namespace

TEST_CASE("an offline step with sync uses the samples of all workers, slice by slice") {
  LoneWorker worker(true);
  const Job& job = worker.job;
  Trainer trainer(job), whole(job);
  OfflineSteps offline(job, trainer);
  std::vector<float> state(whole.state_size());
  std::uint64_t step = 7, position = 84;
  for (std::uint64_t made = 0; made < 3; ++made) {
    CHECK_FALSE(offline.advance(step, position));
    CHECK_FALSE(offline.advance(step, position));
    CHECK(offline.advance(step, position));
    whole.compute(84 + 12 * made, 12);
    whole.apply(state, {7 + made, made});
    CHECK(step == 8 + made);
    CHECK(position == 84 + 12 * (made + 1));
  }
  CHECK(offline.made() == 3);
  const auto ours = weights_of(trainer), expected = weights_of(whole);
  for (std::size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == doctest::Approx(expected[i]).epsilon(1e-4));
}

TEST_CASE("the offline slices of an abandoned step have no effect on later steps") {
  LoneWorker worker(true);
  const Job& job = worker.job;
  Trainer trainer(job), other(job);
  OfflineSteps offline(job, trainer), undisturbed(job, other);
  std::uint64_t step = 1, position = 12, other_step = 1, other_position = 12;
  CHECK_FALSE(offline.advance(step, position));
  offline.abandon_step();
  CHECK(position == 12);
  for (int slice = 0; slice < 3; ++slice) {
    offline.advance(step, position);
    undisturbed.advance(other_step, other_position);
  }
  CHECK(step == 2);
  CHECK(weights_of(trainer) == weights_of(other));
}

TEST_CASE("with async, an offline step is one update, with the step size of a run with all workers") {
  LoneWorker worker(false);
  const Job& job = worker.job;
  Trainer trainer(job), usual(job);
  OfflineSteps offline(job, trainer);
  std::uint64_t step = 5, position = 20;
  CHECK(offline.advance(step, position));
  CHECK(step == 6);
  CHECK(position == 24);
  std::vector<float> state(usual.state_size());
  usual.compute(20, 4);
  usual.apply(state, {5, 0, 2});
  const auto ours = weights_of(trainer), expected = weights_of(usual);
  for (std::size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == doctest::Approx(expected[i]).epsilon(1e-4));
}

TEST_CASE("while a worker is offline, the age of the optimizer's state is the number of offline steps") {
  LoneWorker worker(false);
  worker.config.optimizer = {.type = OptimizerType::adam, .lr = 0.1};
  const Job& job = worker.job;
  Trainer trainer(job), usual(job);
  OfflineSteps offline(job, trainer);
  std::vector<float> state(usual.state_size());
  std::uint64_t step = 50, position = 20;
  for (std::uint64_t made = 0; made < 2; ++made) {
    usual.compute(20 + 4 * made, 4);
    usual.apply(state, {50 + made, made, 2});
    CHECK(offline.advance(step, position));
  }
  const auto ours = weights_of(trainer), expected = weights_of(usual);
  for (std::size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == doctest::Approx(expected[i]).epsilon(1e-4));
}

TEST_CASE("offline steps and their momentum are forgotten when the servers' weights have arrived") {
  LoneWorker worker(false);
  const Job& job = worker.job;
  Trainer trainer(job), fresh(job);
  const auto initial = weights_of(trainer);
  OfflineSteps offline(job, trainer), first(job, fresh);
  std::uint64_t step = 1, position = 4, fresh_step = 1, fresh_position = 4;
  offline.advance(step, position);
  offline.forget();
  CHECK(offline.made() == 0);
  std::ranges::copy(initial, trainer.model().parameters().begin());
  step = 1;
  position = 4;
  offline.advance(step, position);
  first.advance(fresh_step, fresh_position);
  CHECK(weights_of(trainer) == weights_of(fresh));
}
