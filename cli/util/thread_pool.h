// Threads that share tasks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mlk {

// How many threads a pool starts, besides that which calls work().
struct Helpers {
  std::size_t most;
  // For tasks that compute: a thread starts when a task is added and so many wait.
  std::size_t when_waiting = 1;
  // For tasks that wait for others: if it is not 0, `first` begin with work(), and their number doubles after
  // each such time in which tasks have waited and none has ended.
  std::chrono::milliseconds pace{0};
  std::size_t first = 1;
};

// Safe from several threads but for the destructor and work().
class ThreadPool {
 public:
  using Task = std::function<void()>;

  explicit ThreadPool(Helpers helpers) : limits_(helpers) {}
  ~ThreadPool();  // what has not begun is dropped
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // A task may add others. The last that was added is the next to begin.
  void add(Task task);

  // Returns when all tasks have ended. Throws what the first of those that failed threw; none has begun
  // since.
  void work();

 private:
  void begin_helper();
  void work_off();

  const Helpers limits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> waiting_;
  std::size_t running_ = 0, ended_ = 0;
  std::exception_ptr thrown_;
  std::vector<std::thread> helpers_;
};

}  // namespace mlk
