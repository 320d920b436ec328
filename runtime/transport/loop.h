// The loop of the transport: waits for sockets, in the thread that waits for something.
//
// The consumer runs it in receive(), a sender without room in send(). So an awaited message costs one
// wake-up, and its payload is still in the cache of the thread that wants it. While waits are short, the
// waiting thread polls for a while before it sleeps. When no thread has run the loop for a while, a backup
// thread of its own does.
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

  // Both are called by the thread that runs the loop, never by two at once. next(): when the next round is to
  // come at the latest, asked before each. serve(): the events of a round, perhaps none.
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
  void stop();   // ends it; nobody may be in run_until() then

  // Runs the loop until done(), or until the deadline but at least once. If several threads wait, one runs
  // the loop, and the others check after each round.
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
  bool taken_ = false, backup_runs_it_ = false;  // a thread runs the loop; it is the backup
  int waiting_ = 0;                              // threads in run_until()
  std::uint64_t waits_ = 0;                      // that are over
  bool backup_rests_ = false;                    // the backup, until no thread waits
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace mlk::rt
