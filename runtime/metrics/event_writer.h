// Hands reports over to a thread that writes them to event files: a slow disk must not hold up the training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/metrics/event_file.h"

namespace mlk::rt {

// For one thread.
class EventWriter {
 public:
  struct Report {
    std::uint64_t step = 0;
    double wall_time = 0;  // seconds since 1970
    std::vector<Scalar> scalars;
  };
  using Write = std::function<void(const Report&)>;
  // The most reports that wait to be written. A further one is left out; the log says so once.
  static constexpr std::size_t most_waiting = 256;

  EventWriter(const std::string& folder, const Log& log);
  // `write` is called by the thread, and outlives what it needs: see the destructor.
  EventWriter(Write write, const Log& log);
  // Waits for what is still to be written, 2 s at most; then the thread is left to itself.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Never waits. The thread begins with the first one.
  void write(std::uint64_t step, std::span<const Scalar> scalars);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  bool started_ = false;
};

}  // namespace mlk::rt
