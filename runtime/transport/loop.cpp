// The rounds of epoll, and the choice of the thread that runs them.
#include "runtime/transport/loop.h"

#include <algorithm>
#include <array>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace mlk::rt {
namespace {

constexpr std::uint64_t id_of_wake = 0;

// About the time that a thread needs to fall asleep and wake up. Polling for that time before sleeping costs
// at most twice the optimum (Karlin, Li, Manasse, Owicki, "Empirical studies of competitive spinning for a
// shared-memory multiprocessor", SOSP 1991).
constexpr std::chrono::microseconds spin_time{100}, short_wait{2 * spin_time};

// The backup thread runs the loop when no consumer has run it for this time. A consumer handles a message in
// less time, so the two threads do not alternate at every message. A delay of this length does no harm.
constexpr Milliseconds backup_delay{2};

}  // namespace

Loop::Loop(Handlers handlers) : handlers_(std::move(handlers)) {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  watch(wake_, id_of_wake);
}

Loop::~Loop() {
  stop();
  ::close(wake_);
  ::close(epoll_);
}

void Loop::watch(int fd, std::uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
}

void Loop::start() {
  thread_ = std::thread([this] { run_backup(); });
}

void Loop::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    backup_wakes_.notify_all();
  }
  wake();
  thread_.join();
}

void Loop::run_until(SteadyTime deadline, const std::function<bool()>& done) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  for (bool looked = false; !done();) {
    const bool late = std::chrono::steady_clock::now() >= deadline;
    if (late && (looked || taken_)) break;
    if (taken_) {
      if (backup_runs_it_) wake();
      free_.wait_until(lock, deadline);
      continue;
    }
    taken_ = true;
    lock.unlock();
    run_round(deadline, true);
    lock.lock();
    taken_ = false;
    looked = true;
    free_.notify_all();
  }
  --waiting_;
  ++waits_;
  if (backup_rests_ && waiting_ == 0) backup_wakes_.notify_all();
}

void Loop::run_backup() {
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = ~std::uint64_t{0}; !stop_;) {
    if (waiting_ == 0 && waits_ == seen) {
      taken_ = backup_runs_it_ = true;
      lock.unlock();
      run_round(SteadyTime::max(), false);
      lock.lock();
      taken_ = backup_runs_it_ = false;
      free_.notify_all();
    } else if (waiting_ > 0 && waits_ == seen) {  // the current wait is longer than backup_delay
      backup_rests_ = true;
      backup_wakes_.wait(lock, [this] { return stop_ || waiting_ == 0; });
      backup_rests_ = false;
    } else {
      seen = waits_;
      backup_wakes_.wait_for(lock, backup_delay, [this] { return stop_.load(); });
    }
  }
}

void Loop::run_round(SteadyTime deadline, bool spin) {
  const auto now = std::chrono::steady_clock::now();
  auto time = longest_round;
  deadline = std::min(deadline, handlers_.next());
  if (deadline < now + time)
    time = std::max(std::chrono::ceil<Milliseconds>(deadline - now), Milliseconds(0));
  std::array<epoll_event, 64> events;
  const int count = std::max(wait_for_sockets(events, time, spin), 0);
  std::span<epoll_event> came = std::span(events).first(static_cast<std::size_t>(count));
  const auto woken = std::ranges::remove(came, id_of_wake, [](const epoll_event& e) { return e.data.u64; });
  if (!woken.empty()) {
    std::uint64_t times;
    (void)!::read(wake_, &times, sizeof times);
  }
  handlers_.serve(came.first(came.size() - woken.size()));
}

// While the thread polls, it yields to any other thread that could run on this core.
int Loop::wait_for_sockets(std::span<epoll_event> events, Milliseconds time, bool spin) {
  const auto size = static_cast<int>(events.size());
  const auto start = std::chrono::steady_clock::now();
  if (spin && waits_are_short_ && time > Milliseconds(0)) {
    do {
      if (const int count = epoll_wait(epoll_, events.data(), size, 0); count != 0) return count;
      sched_yield();
    } while (std::chrono::steady_clock::now() - start < spin_time);
  }
  const int count = epoll_wait(epoll_, events.data(), size, static_cast<int>(time.count()));
  if (time > Milliseconds(0)) waits_are_short_ = std::chrono::steady_clock::now() - start < short_wait;
  return count;
}

void Loop::wake() const {
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
}

}  // namespace mlk::rt
