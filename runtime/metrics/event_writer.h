// Hands reports over to a thread that writes them to event files: a slow disk must not delay the training.
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
  // The most reports that may wait to be written. Further reports are dropped; the log says so once.
  static constexpr std::size_t most_waiting = 256;

  EventWriter(const std::string& folder, const Log& log);
  // The thread calls `write`, possibly after the destructor has returned (see the destructor). So `write`
  // must own what it uses.
  EventWriter(Write write, const Log& log);
  // Waits until the waiting reports are written. If this takes longer than 2 s, abandons the thread.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Never waits. The first call starts the thread.
  void write(std::uint64_t step, std::span<const Scalar> scalars);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  bool started_ = false;
};

}  // namespace mlk::rt
