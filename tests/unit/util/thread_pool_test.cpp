// Threads that share tasks.
#include "cli/util/thread_pool.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("util/thread_pool");

using mlk::ThreadPool;

TEST_CASE("work() returns after all tasks are done, even those that other tasks added") {
  std::atomic<int> done = 0;
  ThreadPool pool({.most = 3, .when_waiting = 8});
  const std::function<void(int)> act = [&](int depth) {
    ++done;
    for (int i = 0; i < 4 && depth > 0; ++i) pool.add([&, depth] { act(depth - 1); });
  };
  pool.add([&] { act(5); });
  pool.work();
  CHECK(done == 1 + 4 + 16 + 64 + 256 + 1024);
}

TEST_CASE("work() runs all tasks in the thread of the caller if fewer than `when_waiting` tasks wait") {
  std::set<std::thread::id> threads;
  ThreadPool pool({.most = 3, .when_waiting = 8});
  for (int i = 0; i < 5; ++i) pool.add([&] { threads.insert(std::this_thread::get_id()); });
  pool.work();
  CHECK(threads == std::set{std::this_thread::get_id()});
}

TEST_CASE("tasks that wait for each other run at the same time") {
  constexpr std::ptrdiff_t all = 4;
  for (const mlk::Helpers helpers :
       {mlk::Helpers{.most = all - 1}, mlk::Helpers{.most = all - 1, .pace = std::chrono::milliseconds(1)}}) {
    std::latch all_are_there(all);
    ThreadPool pool(helpers);
    for (std::ptrdiff_t i = 0; i < all; ++i) pool.add([&] { all_are_there.arrive_and_wait(); });
    pool.work();
    CHECK(all_are_there.try_wait());
  }
}

TEST_CASE("work() uses one thread if all tasks end within `pace`") {
  std::set<std::thread::id> threads;
  std::mutex mutex;
  ThreadPool pool({.most = 9, .pace = std::chrono::hours(1)});
  for (int i = 0; i < 100; ++i) {
    pool.add([&] {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
  }
  pool.work();
  CHECK(threads.size() == 1);
}

TEST_CASE("the number of helpers does not grow if at least one task ends in each `pace`") {
  std::set<std::thread::id> threads;
  std::mutex mutex;
  ThreadPool pool({.most = 9, .pace = std::chrono::milliseconds(100), .first = 2});
  for (int i = 0; i < 300; ++i) {
    pool.add([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
  }
  pool.work();
  CHECK(threads.size() <= 3);  // two helpers and the caller
}

TEST_CASE("work() returns if the pool has no tasks") { ThreadPool({.most = 3}).work(); }

TEST_CASE("work() rethrows the exception of a task and begins no further task") {
  std::atomic<int> begun = 0;
  ThreadPool pool({.most = 0});
  for (int i = 0; i < 100; ++i) {
    pool.add([&] {
      if (++begun == 10) throw std::runtime_error("the tenth");
    });
  }
  CHECK_THROWS_WITH(pool.work(), "the tenth");
  CHECK(begun == 10);
}

TEST_CASE("a pool that is destroyed without work() drops tasks that have not begun") {
  std::atomic<int> begun = 0;
  {
    ThreadPool pool({.most = 0});
    for (int i = 0; i < 5; ++i) pool.add([&] { ++begun; });
  }
  CHECK(begun == 0);
}
