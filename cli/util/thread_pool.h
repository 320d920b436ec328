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

// How many threads a pool starts, besides the thread that calls work().
struct Helpers {
  std::size_t most;
  // For tasks that compute: add() starts a thread if at least this number of tasks wait.
  std::size_t when_waiting = 1;
  // For tasks that wait for other programs: if `pace` is not 0, work() starts `first` threads. The number of
  // threads doubles after each `pace` in which tasks waited and no task ended.
  std::chrono::milliseconds pace{0};
  std::size_t first = 1;
};

// Thread-safe, except the destructor and work().
class ThreadPool {
 public:
  using Task = std::function<void()>;

  explicit ThreadPool(Helpers helpers) : limits_(helpers) {}
  ~ThreadPool();  // drops tasks that have not begun
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // A task may add other tasks. The task that was added last begins next.
  void add(Task task);

  // Returns when all tasks have ended. Rethrows the exception of the first failed task; no task begins after
  // that failure.
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
