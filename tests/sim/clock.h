// Virtual time, chance, and the planned actions: a simulated run follows completely from one seed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/transport/event.h"

namespace mlk::sim {

using rt::SteadyTime;
using Duration = std::chrono::nanoseconds;
using namespace std::chrono_literals;

// The shortest and the longest time that a Job waits before it starts its process again, and the time from
// SIGTERM to SIGKILL.
constexpr Duration first_restart = 10s, longest_restart = 40s, termination_grace = 30s;
constexpr Duration settled_after = 60s;  // after this time of calm all processes run and are connected

// SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, OOPSLA 2014): the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
  Duration between(Duration low, Duration high) {
    return low +
           Duration(static_cast<std::int64_t>(below(static_cast<std::uint64_t>((high - low).count()) + 1)));
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return Random(a ^ (b * 0xff51afd7ed558ccd + 0x2545f4914f6cdd1d)).next();
}

// Actions for the same time run in the order in which they were planned.
class Clock {
 public:
  using Action = std::function<void()>;

  SteadyTime now() const { return now_; }
  void at(SteadyTime time, Action action) {
    queue_.push_back({std::max(time, now_), planned_++, std::move(action)});
    std::push_heap(queue_.begin(), queue_.end(), later);
  }
  void after(Duration time, Action action) { at(now_ + time, std::move(action)); }

  // Runs the next planned action. Returns false if no action is planned.
  bool step() {
    if (queue_.empty()) return false;
    std::pop_heap(queue_.begin(), queue_.end(), later);
    Planned planned = std::move(queue_.back());
    queue_.pop_back();
    now_ = planned.time;
    planned.action();
    return true;
  }

 private:
  struct Planned {
    SteadyTime time;
    std::uint64_t number;
    Action action;
  };
  static bool later(const Planned& one, const Planned& other) {
    return std::pair(one.time, one.number) > std::pair(other.time, other.number);
  }

  SteadyTime now_{std::chrono::hours(1)};
  std::uint64_t planned_ = 0;
  std::vector<Planned> queue_;
};

}  // namespace mlk::sim
