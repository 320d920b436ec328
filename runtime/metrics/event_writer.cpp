// A queue, and the thread that empties it.
#include "runtime/metrics/event_writer.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace mlk::rt {
namespace {

constexpr std::chrono::seconds end_patience{2};

}  // namespace

// The state that the thread uses, also after the destructor has abandoned the thread.
struct EventWriter::Shared {
  Write write;
  Log log;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Report> waiting;
  bool ending = false, over = false, left_out = false;

  Shared(Write how, const Log& where) : write(std::move(how)), log(where) {}

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ending || !waiting.empty(); });
      if (waiting.empty()) break;
      const Report report = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      write(report);
      lock.lock();
    }
    over = true;
    changed.notify_all();
  }
};

EventWriter::EventWriter(const std::string& folder, const Log& log)
    : shared_(std::make_shared<Shared>(Write(), log)) {
  const auto file = std::make_shared<EventFile>(folder, shared_->log);
  shared_->write = [file](const Report& report) {
    file->write(report.step, report.scalars, report.wall_time);
  };
}

EventWriter::EventWriter(Write write, const Log& log)
    : shared_(std::make_shared<Shared>(std::move(write), log)) {}

EventWriter::~EventWriter() {
  if (!started_) return;
  std::unique_lock lock(shared_->mutex);
  shared_->ending = true;
  shared_->changed.notify_all();
  if (!shared_->changed.wait_for(lock, end_patience, [this] { return shared_->over; }))
    shared_->log.line("event files: the disk is too slow, the last reports are left out");
}

void EventWriter::write(std::uint64_t step, std::span<const Scalar> scalars) {
  if (!started_) {
    try {
      std::thread([shared = shared_] { shared->run(); }).detach();
      started_ = true;
    } catch (const std::system_error&) {  // no thread is available now: the next report tries again
      return;
    }
  }
  const std::lock_guard lock(shared_->mutex);
  if (shared_->waiting.size() < most_waiting) {
    shared_->waiting.push_back({step, wall_seconds(), {scalars.begin(), scalars.end()}});
    shared_->changed.notify_all();
  } else if (!std::exchange(shared_->left_out, true)) {
    shared_->log.line("event files: the disk is too slow, reports are left out");
  }
}

}  // namespace mlk::rt
