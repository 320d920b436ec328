// Threads that share one operation after another with the thread that wants it.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mlk::kernels {

// They block between operations and never spin: several processes share a machine, and teams of threads that
// wait for each other by spinning make all of them slow. The calling thread takes parts, too, and waits only
// for parts that somebody is at: a thread that gets no processor holds nobody up.
class ThreadPool {
 public:
  // threads: with the caller, at least 1. They start with the first operation, or as many of them as can be
  // had.
  explicit ThreadPool(int threads) : threads_(threads) {}
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls part(0), ..., part(parts - 1), each once, in any thread and order; returns when all have returned,
  // or throws what the first of them has thrown. For one caller at a time.
  void run(int parts, const std::function<void(int)>& part);

 private:
  void start();
  void serve();
  void take_parts(std::unique_lock<std::mutex>& lock);

  const int threads_;
  std::mutex mutex_;
  std::condition_variable begun_, done_;
  const std::function<void(int)>* part_ = nullptr;
  int parts_ = 0, next_ = 0, unfinished_ = 0;
  bool started_ = false, stop_ = false;
  std::exception_ptr thrown_;
  std::vector<std::thread> others_;
};

}  // namespace mlk::kernels
