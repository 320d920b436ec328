// Operations that several threads share.
#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/ops.h"
#include "kernels/reference/reference_ops.h"
#include "tests/unit/kernels/numbers.h"

TEST_SUITE_BEGIN("kernels/cpu/threads");

using namespace mlk::kernels;
using mlk::test::area;
using mlk::test::furthest_apart;
using mlk::test::Numbers;

TEST_CASE("ThreadPool::run() calls the function once for each part, for any number of parts") {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      for (const int parts : {0, 1, 2, 7}) {
        std::vector<int> calls(static_cast<std::size_t>(parts));
        pool.run(parts, [&](int part) { ++calls[static_cast<std::size_t>(part)]; });
        CHECK(std::ranges::all_of(calls, [](int count) { return count == 1; }));
      }
    }
  }
}

TEST_CASE("a thread pool distributes parts among all its threads") {
  ThreadPool pool(3);
  std::atomic<int> met{0};
  pool.run(3, [&](int) {
    ++met;
    while (met < 3) std::this_thread::yield();  // each part ends only when all three have begun
  });
  CHECK(met == 3);
}

TEST_CASE("an exception of a part is rethrown when all parts have ended, and the pool stays usable") {
  ThreadPool pool(3);
  for (int time = 0; time < 20; ++time) {
    std::atomic<int> over{0};
    CHECK_THROWS_AS(pool.run(10,
                             [&](int part) {
                               ++over;
                               if (part % 3 == 1) throw std::bad_alloc();
                             }),
                    std::bad_alloc);
    CHECK(over == 10);
    pool.run(10, [&](int) { ++over; });
    CHECK(over == 20);
  }
}

TEST_CASE("a thread pool that was never used can be destroyed") { const ThreadPool pool(4); }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers need more address space
TEST_CASE("a ThreadPool computes with fewer threads if the process cannot start more") {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    const rlimit space{512 << 20, 512 << 20};  // room for about 60 stacks of 8 MiB
    if (setrlimit(RLIMIT_AS, &space) != 0) _exit(2);
    ThreadPool pool(500);
    std::atomic<int> sum{0};
    for (int time = 0; time < 2; ++time) pool.run(1000, [&](int part) { sum += part; });
    _exit(sum == 2 * 499'500 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
#endif

TEST_CASE("gemm by three threads agrees with gemm by one thread, for tall and for wide results") {
  auto alone = make_cpu_ops(1), shared = make_cpu_ops(3);
  Numbers numbers;
  // Some sizes are too small for another thread, and some are large enough.
  const int sizes[][3] = {{509, 130, 211}, {130, 509, 211},  {2000, 1, 3000}, {1, 2000, 3000},
                          {10, 512, 1280}, {300, 1200, 600}, {1200, 300, 600}};
  for (const auto& [m, n, k] : sizes) {
    for (Transpose ta : {Transpose::no, Transpose::yes}) {
      for (Transpose tb : {Transpose::no, Transpose::yes}) {
        const auto a = numbers(area(m, k)), b = numbers(area(k, n));
        auto expected = numbers(area(m, n)), c = expected;
        alone->gemm(ta, tb, m, n, k, 0.7f, a.data(), b.data(), 0.5f, expected.data());
        shared->gemm(ta, tb, m, n, k, 0.7f, a.data(), b.data(), 0.5f, c.data());
        CAPTURE(m);
        CAPTURE(n);
        CHECK(furthest_apart(c, expected) <= 1e-6 * k);
      }
    }
  }
}

TEST_CASE("updates by three threads have the same bits as in the reference") {
  auto alone = make_reference_ops(), shared = make_cpu_ops(3);
  Numbers numbers;
  const std::size_t size = 300'001;
  const auto x = numbers(size), gradients = numbers(size);
  const std::vector<float> squares(size, 0.5f);
  auto a = x, b = x, state_a = gradients, state_b = gradients, square_a = squares, square_b = squares;
  alone->sgd(a, gradients, state_a, {0.3f, 0.7f, 0.01f, true});
  shared->sgd(b, gradients, state_b, {0.3f, 0.7f, 0.01f, true});
  CHECK(a == b);
  CHECK(state_a == state_b);
  const AdamStep step{.lr = 0.1f,
                      .epsilon = 1e-8f,
                      .beta1 = 0.9f,
                      .one_minus_beta1 = 0.1f,
                      .beta2 = 0.999f,
                      .one_minus_beta2 = 0.001f};
  alone->adam(a, gradients, state_a, square_a, step);
  shared->adam(b, gradients, state_b, square_b, step);
  CHECK(a == b);
  CHECK(square_a == square_b);
  alone->add_scaled(gradients, 0.3f, x, a);
  shared->add_scaled(gradients, 0.3f, x, b);
  CHECK(a == b);
  alone->scale(0.3f, gradients, a);
  shared->scale(0.3f, gradients, b);
  CHECK(a == b);
}

TEST_CASE("three threads add biases and sum up rows with the same bits as one thread") {
  auto alone = make_cpu_ops(1), shared = make_cpu_ops(3);
  Numbers numbers;
  for (const auto& [rows, columns] : {std::pair{700, 301}, {30'001, 7}, {3, 70'001}}) {
    CAPTURE(rows);
    const auto x = numbers(area(rows, columns)), delta = numbers(x.size()), bias = numbers(area(1, columns));
    const auto results = [&](Ops& ops) {
      auto sum = x, positive = x, by_x = delta, gradient = bias, by_bias = bias;
      ops.add_bias(rows, columns, bias.data(), sum.data());
      ops.add_bias_relu(rows, columns, bias.data(), positive.data());
      ops.bias_backward(rows, columns, delta.data(), gradient.data());
      ops.bias_relu_backward(rows, columns, x.data(), by_x.data(), by_bias.data());
      return std::vector{sum, positive, by_x, gradient, by_bias};
    };
    CHECK(results(*alone) == results(*shared));
  }
}

TEST_CASE("three threads compute losses with the same bits as one thread") {
  auto alone = make_cpu_ops(1), shared = make_cpu_ops(3);
  Numbers numbers;
  for (const auto& [rows, classes] : {std::pair{30'000, 11}, {900, 301}, {3, 70'001}}) {
    CAPTURE(rows);
    const auto logits = numbers(area(rows, classes));
    const auto labels = numbers.labels(rows, classes);
    const auto results = [&](Ops& ops) {
      auto delta = logits;
      float loss = 0;
      ops.softmax_cross_entropy_backward(rows, classes, logits.data(), labels.data(), delta.data(), &loss);
      return std::tuple{delta, loss, ops.softmax_cross_entropy(rows, classes, logits.data(), labels.data())};
    };
    CHECK(results(*alone) == results(*shared));
  }
}

TEST_CASE("one thread and three threads compute embeddings with the bits of the reference") {
  const auto reference = make_reference_ops();
  Numbers numbers;
  const int rows = 900, length = 300, columns = 301, known = 50;
  const auto x = numbers(area(rows, columns)), table = numbers(area(known, columns)),
             positions = numbers(area(length, columns));
  const auto tokens = numbers.labels(rows, known);
  const auto results = [&](Ops& ops) {
    auto out = x, by_token = table, by_position = positions;
    ops.embed(rows, length, columns, tokens.data(), table.data(), positions.data(), out.data());
    ops.embed_backward(rows, length, columns, tokens.data(), x.data(), by_token.data(), by_position.data());
    return std::tuple{out, by_token, by_position};
  };
  for (const int threads : {1, 3}) CHECK(results(*make_cpu_ops(threads)) == results(*reference));
}
