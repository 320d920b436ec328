// Threads that share tasks.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mlk {

// Safe from several threads but for the destructor and work().
class Crew {
 public:
  using Task = std::function<void()>;

  // The caller of work() and at most so many others. One of these begins when a task is added and `many`
  // wait.
  Crew(std::size_t most_helpers, std::size_t many) : most_helpers_(most_helpers), many_(many) {}
  ~Crew();  // what has not begun is dropped
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // A task may add others. The last that was added is the next to begin.
  void add(Task task);

  // Returns when all tasks have ended. Throws what the first of those that failed threw; none has begun
  // since.
  void work();

 private:
  void work_off();

  const std::size_t most_helpers_, many_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> waiting_;
  std::size_t running_ = 0;
  std::exception_ptr thrown_;
  std::vector<std::thread> helpers_;
};

}  // namespace mlk
