#include "cli/util/thread_pool.h"

#include <system_error>
#include <utility>

namespace mlk {

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
  }
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::add(Task task) {
  const std::lock_guard lock(mutex_);
  if (thrown_) return;
  waiting_.push_back(std::move(task));
  changed_.notify_one();
  if (limits_.pace.count() == 0 && waiting_.size() >= limits_.when_waiting) begin_helper();
}

// Call with the mutex locked.
void ThreadPool::begin_helper() {
  if (helpers_.size() == limits_.most) return;
  try {
    helpers_.emplace_back([this] { work_off(); });
  } catch (const std::system_error&) {
    // The system has no more threads; the existing threads do all tasks.
  }
}

void ThreadPool::work() {
  if (limits_.pace.count() > 0) {
    std::unique_lock lock(mutex_);
    for (std::size_t more = limits_.first; !waiting_.empty() && helpers_.size() < limits_.most;) {
      for (; more > 0; --more) begin_helper();
      if (helpers_.empty()) break;
      const std::size_t ended = ended_;
      changed_.wait_for(lock, limits_.pace, [this] { return waiting_.empty(); });
      if (ended_ == ended) more = helpers_.size();
    }
  }
  work_off();
  if (thrown_) std::rethrow_exception(thrown_);
}

void ThreadPool::work_off() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !waiting_.empty() || running_ == 0; });
    if (waiting_.empty()) return;
    Task task = std::move(waiting_.back());
    waiting_.pop_back();
    ++running_;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      task();
    } catch (...) {
      thrown = std::current_exception();
    }
    task = {};
    lock.lock();
    --running_;
    ++ended_;
    if (thrown && !thrown_) {
      thrown_ = thrown;
      waiting_.clear();
    }
    if (running_ == 0 && waiting_.empty()) changed_.notify_all();
  }
}

}  // namespace mlk
