#include "cli/util/crew.h"

#include <system_error>
#include <utility>

namespace mlk {

Crew::~Crew() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
  }
  for (std::thread& helper : helpers_) helper.join();
}

void Crew::add(Task task) {
  const std::lock_guard lock(mutex_);
  if (thrown_) return;
  waiting_.push_back(std::move(task));
  changed_.notify_one();
  if (waiting_.size() < many_ || helpers_.size() == most_helpers_) return;
  try {
    helpers_.emplace_back([this] { work_off(); });
  } catch (const std::system_error&) {
    // The system has no more threads: those that are there do it all.
  }
}

void Crew::work() {
  work_off();
  if (thrown_) std::rethrow_exception(thrown_);
}

void Crew::work_off() {
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
    if (thrown && !thrown_) {
      thrown_ = thrown;
      waiting_.clear();
    }
    if (running_ == 0 && waiting_.empty()) changed_.notify_all();
  }
}

}  // namespace mlk
