// Buffers into which frames are received straight from the socket, where the consumer knows what will come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "runtime/transport/wire.h"

namespace mlk::rt {

// A frame lands when all five agree and its length is the length of the buffer. Else it gets memory of its
// own.
struct LandingKey {
  PeerId from;
  MessageType type = MessageType::heartbeat;
  std::uint64_t generation = 0, clock = 0;
  std::uint32_t key = 0;

  auto operator<=>(const LandingKey&) const = default;
};

// How a payload gets into its buffer: instead of what is there, or, float by float, added to it. Either way
// it gets there as it comes: of a frame that is broken off, or found garbled at its end, a part may be in the
// buffer.
enum class Landing { replace, add };

// Safe for one consumer and the loop of the transport. A buffer belongs to the loop from expect() until
// the event of its frame, or until cancel_all() returns.
class Landings {
 public:
  void expect(const LandingKey& key, std::span<std::byte> buffer, Landing how = Landing::replace) {
    const std::lock_guard lock(mutex_);
    waiting_[key] = {buffer, how, epoch_};
  }

  // Takes all buffers back. A frame that was half received is dropped, and must be asked for again.
  void cancel_all() {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    ++epoch_;
  }

  // Counts the calls of cancel_all(): what landed before the last one is void.
  std::uint64_t epoch() const {
    const std::lock_guard lock(mutex_);
    return epoch_;
  }

  // For the loop: the right to fill a buffer until cancel_all().
  struct Ticket {
    std::span<std::byte> buffer;
    Landing how = Landing::replace;
    std::uint64_t epoch = 0;
  };
  std::optional<Ticket> claim(const LandingKey& key, std::size_t length) {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(key);
    if (found == waiting_.end() || found->second.buffer.size() != length) return {};
    const Ticket ticket = found->second;
    waiting_.erase(found);
    return ticket;
  }

  // Runs send(): its answer may land in the buffer that it reads, from another thread. That it comes later is
  // known to the processes in between, but not to the thread sanitizer, to which a system call reads when it
  // returns; by then the answer may be there.
  template <typename Send>
  auto sending(Send send) {
#ifdef MLK_SANITIZED
    const std::lock_guard lock(mutex_);
#endif
    return send();
  }

  // Runs fill(buffer) and returns true, unless the ticket was cancelled.
  template <typename Fill>
  bool use(const Ticket& ticket, Fill fill) {
    const std::lock_guard lock(mutex_);
    if (ticket.epoch != epoch_) return false;
    fill(ticket.buffer);
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::uint64_t epoch_ = 0;
  std::map<LandingKey, Ticket> waiting_;
};

// Takes the buffers back at the end of its life: declared after them, it keeps the transport from
// writing into memory that is gone, whichever way the scope is left.
class LandingsGuard {
 public:
  explicit LandingsGuard(Landings& landings) : landings_(landings) {}
  ~LandingsGuard() { landings_.cancel_all(); }
  LandingsGuard(const LandingsGuard&) = delete;
  LandingsGuard& operator=(const LandingsGuard&) = delete;

 private:
  Landings& landings_;
};

}  // namespace mlk::rt
