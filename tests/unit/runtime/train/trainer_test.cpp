#include "runtime/train/trainer.h"

#include <cmath>
#include <fstream>
#include <unistd.h>

#include <doctest/doctest.h>

#include "tests/unit/runtime/worker_job.h"

TEST_SUITE_BEGIN("runtime/train/trainer");

using namespace mlk::rt;
using namespace mlk::test;

namespace {

// A worker with a batch of so many samples.
struct Worker : WorkerJob {
  Worker(int batch, std::vector<int> hidden) {
    config.model.hidden = std::move(hidden);
    config.data.batch = batch;
  }
};

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE(
    "if a worker gets more samples than its batch, it computes them in parts, with the same loss and "
    "gradients") {
  Worker small(4, {8, 8}), large(64, {8, 8});
  Trainer in_parts(small.job), at_once(large.job);
  const auto gradients = in_parts.model().gradients();
  for (const std::uint64_t samples : {4, 5, 11, 64}) {
    std::size_t final_from = gradients.size();
    std::vector<float> told(gradients.size());
    const double loss = in_parts.compute(100, samples, [&](std::size_t from) {
      REQUIRE(from < final_from);
      std::copy(gradients.begin() + static_cast<std::ptrdiff_t>(from),
                gradients.begin() + static_cast<std::ptrdiff_t>(final_from),
                told.begin() + static_cast<std::ptrdiff_t>(from));
      final_from = from;
    });
    CHECK(loss == doctest::Approx(at_once.compute(100, samples)).epsilon(1e-5));
    CHECK(final_from == 0);
    const auto expected = at_once.model().gradients();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(gradients[i] == doctest::Approx(expected[i]).epsilon(1e-4).scale(0.01));
      CHECK(told[i] == gradients[i]);
    }
  }
}

TEST_CASE("dropout depends on the position of a sample in the run, and evaluations use no dropout") {
  Worker in_parts(64, {16, 8}), at_once(64, {16, 8}), without(64, {16, 8});
  in_parts.config.data.micro_batch = 9;
  for (Worker* worker : {&in_parts, &at_once}) worker->config.model.dropout = 0.3;
  Trainer parts(in_parts.job), whole(at_once.job), plain(without.job);
  const double loss = whole.compute(100, 64);
  CHECK(parts.compute(100, 64) == doctest::Approx(loss).epsilon(1e-5));
  CHECK(whole.compute(100, 64) == loss);
  CHECK(plain.compute(100, 64) != loss);
  const std::uint64_t epoch = whole.data().train->size();
  CHECK(whole.compute(100 + 64 * epoch, 64) != whole.compute(100 + 128 * epoch, 64));
  const auto loss_of = [](Trainer& trainer) {
    return trainer.model().evaluate(*trainer.data().held_out)->loss;
  };
  CHECK(loss_of(whole) == loss_of(plain));
}

TEST_CASE("a batch that is cut into micro-batches has the gradients and the loss of the whole batch") {
  Worker in_parts(64, {8, 8}), at_once(64, {8, 8});
  for (const int micro_batch : {1, 7, 32, 64}) {
    in_parts.config.data.micro_batch = micro_batch;
    Trainer parts(in_parts.job), whole(at_once.job);
    CHECK(parts.compute(100, 64) == doctest::Approx(whole.compute(100, 64)).epsilon(1e-5));
    const auto gradients = parts.model().gradients(), expected = whole.model().gradients();
    bool same_bits = true;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(gradients[i] == doctest::Approx(expected[i]).epsilon(1e-4).scale(0.01));
      same_bits &= gradients[i] == expected[i];
    }
    CHECK(same_bits == (micro_batch == 64));  // sums of parts are rounded differently
  }
}

TEST_CASE("a gradient is clipped to the configured norm before it is applied") {
  Worker free(16, {8}), bound(16, {8});
  free.config.optimizer = bound.config.optimizer = {.lr = 1};
  bound.config.optimizer.clip = 0.01;
  Trainer as_it_is(free.job), clipped(bound.job);
  std::vector<float> state_free(as_it_is.state_size()), state(state_free.size());
  as_it_is.compute(0, 16);
  clipped.compute(0, 16);
  const auto gradient = as_it_is.model().gradients();
  double squares = 0;
  for (const float x : gradient) squares += static_cast<double>(x) * static_cast<double>(x);
  REQUIRE(squares > 1e-4);
  const std::vector<float> before(clipped.model().parameters().begin(), clipped.model().parameters().end());
  clipped.apply(state, {});
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double step = static_cast<double>(before[i]) - static_cast<double>(clipped.model().parameters()[i]);
    CHECK(step == doctest::Approx(0.01 / std::sqrt(squares) * static_cast<double>(gradient[i])).scale(0.01));
  }
  as_it_is.clip();
  CHECK(std::equal(gradient.begin(), gradient.end(), as_it_is.model().gradients().begin()));
}

TEST_CASE("a worker needs no additional memory if it gets many more samples than its batch has") {
#ifdef __SANITIZE_ADDRESS__
  MESSAGE("skipped: freed memory stays in the address sanitizer's quarantine");
  return;
#endif
  Worker worker(16, {512});
  Trainer trainer(worker.job);
  trainer.compute(0, 16);
  const std::size_t before = resident_bytes();
  trainer.compute(0, 16 * 2000);  // their activations alone would be 64 MB
  CHECK(resident_bytes() < before + (16 << 20));
}
