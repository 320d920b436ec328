// The loop of the transport: the thread that waits for an event also polls the sockets.
//
// The consumer runs the loop in receive(), and a sender without room runs it in send(). So an awaited message
// costs one wake-up, and its payload is still in the cache of the thread that wants it. While waits are
// short, the waiting thread polls for a while before it sleeps. If no thread has run the loop for a while,
// the backup thread of the loop runs it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <sys/epoll.h>
#include <thread>

#include "runtime/transport/event.h"

namespace mlk::rt {

// run_until() and wake() are for any thread.
class Loop {
 public:
  static constexpr Milliseconds longest_round{100};

  // Only the thread that runs the loop calls these functions. next() is called before each round, and returns
  // the time at which the round must end at the latest. serve() handles the events of the round, perhaps
  // none.
  struct Handlers {
    std::function<SteadyTime()> next;
    std::function<void(std::span<const epoll_event> events)> serve;
  };
  explicit Loop(Handlers handlers);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  int epoll() const { return epoll_; }
  void watch(int fd, std::uint64_t id);  // id: any but 0

  void start();  // the backup thread
  void stop();   // ends the backup thread; no thread may be in run_until() then

  // Runs the loop until done() returns true, or until the deadline. A deadline in the past still allows one
  // round, if no other thread runs the loop. If several threads wait, one of them runs the loop, and the
  // others call done() after each round.
  void run_until(SteadyTime deadline, const std::function<bool()>& done);

  void wake() const;  // ends the current round, or the next

 private:
  void run_backup();
  void run_round(SteadyTime deadline, bool spin);
  int wait_for_sockets(std::span<epoll_event> events, Milliseconds time, bool spin);

  const Handlers handlers_;
  int epoll_ = -1, wake_ = -1;
  bool waits_are_short_ = false;  // for the thread that runs the loop

  std::mutex mutex_;
  std::condition_variable free_, backup_wakes_;
  bool taken_ = false;           // some thread runs the loop
  bool backup_runs_it_ = false;  // the thread that runs the loop is the backup thread
  int waiting_ = 0;              // threads in run_until()
  std::uint64_t waits_ = 0;      // the number of waits that are over
  bool backup_rests_ = false;    // the backup sleeps until no thread waits
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace mlk::rt
