#include "runtime/train/trainer.h"

#include <fstream>
#include <unistd.h>

#include <doctest/doctest.h>

#include "tests/unit/runtime/worker_job.h"

using namespace mlk::rt;
using namespace mlk::test;

namespace {

// A worker whose share of a step is `batch` as long as nobody is lost.
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

TEST_CASE("the share of lost workers is computed batch by batch, with the same gradients") {
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

TEST_CASE("the share of lost workers takes no more memory than the worker's own") {
#ifdef __SANITIZE_ADDRESS__
  MESSAGE("skipped: freed memory stays in the address sanitizer's quarantine");
  return;
#endif
  Worker worker(16, {512});
  Trainer trainer(worker.job);
  trainer.compute(0, 16);
  const std::size_t before = resident_bytes();
  trainer.compute(0, 16 * 2000);  // its activations alone would be 64 MB
  CHECK(resident_bytes() < before + (16 << 20));
}
