// Threads that execute operations together with the calling thread, one operation after another.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mlk::kernels {

// Threads block between operations and never spin: several processes share a machine, and threads that spin
// while they wait make all these processes slow. The calling thread executes parts too, and waits only for
// parts that another thread has begun. So a thread that wakes up late does not delay the operation.
class ThreadPool {
 public:
  // threads: the number of threads, including the caller, at least 1. The first operation starts the other
  // threads. If some of them cannot be started, the pool has fewer threads.
  explicit ThreadPool(int threads) : threads_(threads) {}
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls part(0), ..., part(parts - 1), each once: part 0 in the calling thread, the other parts in any
  // thread and in any order. Returns when all parts have returned, or rethrows their first exception. For one
  // caller at a time.
  void run(int parts, const std::function<void(int)>& part);

 private:
  void start();
  void serve();
  void run_parts(std::unique_lock<std::mutex>& lock);

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
