// The threads of an HTTP server: one for each open connection.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include <httplib.h>

namespace mlk::local {

// Each open connection has its own thread, since a stream may stay open for hours. When the connection ends,
// its thread serves another connection. A new thread starts only if all others are busy. A connection beyond
// the limit waits for a thread.
class ConnectionThreads : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(std::size_t limit) : limit_(limit) {}

  void enqueue(std::function<void()> task) override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    // A thread that was woken but has not taken its task yet still counts as idle, and its task as waiting.
    if (idle_ >= tasks_.size() || threads_.size() >= limit_) {
      wanted_.notify_one();
    } else {
      threads_.emplace_back([this] { work(); });
    }
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      wanted_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      wanted_.wait(lock, [&] { return closing_ || !tasks_.empty(); });
      --idle_;
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  const std::size_t limit_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<std::function<void()>> tasks_;
  std::list<std::thread> threads_;
  std::size_t idle_ = 0;
  bool closing_ = false;
};

}  // namespace mlk::local
