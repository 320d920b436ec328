// The threads take the parts under a lock. This costs little, since the work of a part takes far longer.
#include "kernels/cpu/thread_pool.h"

#include <system_error>
#include <utility>

namespace mlk::kernels {

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : others_) thread.join();
}

void ThreadPool::run(int parts, const std::function<void(int)>& part) {
  start();
  std::unique_lock lock(mutex_);
  part_ = &part;
  parts_ = unfinished_ = parts;
  next_ = 0;
  begun_.notify_all();
  run_parts(lock);
  done_.wait(lock, [this] { return unfinished_ == 0; });
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void ThreadPool::start() {
  if (started_) return;
  started_ = true;
  try {
    while (static_cast<int>(others_.size()) + 1 < threads_) others_.emplace_back([this] { serve(); });
  } catch (const std::system_error&) {
    // The system has refused another thread. The pool then uses the threads that it has, or only the
    // calling thread.
  }
}

void ThreadPool::serve() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    run_parts(lock);
    begun_.wait(lock, [this] { return stop_ || next_ < parts_; });
  }
}

void ThreadPool::run_parts(std::unique_lock<std::mutex>& lock) {
  while (next_ < parts_) {
    const int mine = next_++;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      (*part_)(mine);
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    if (!thrown_) thrown_ = thrown;
    if (--unfinished_ == 0) done_.notify_one();
  }
}

}  // namespace mlk::kernels
