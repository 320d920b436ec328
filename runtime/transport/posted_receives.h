// Posted receives: buffers into which frames are received directly from the socket, if the consumer knows
// which frames will come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "kernels/ops.h"
#include "runtime/transport/wire.h"

namespace mlk::rt {

// A frame is received into a buffer if all five fields match and its length is the length of the buffer.
// Otherwise the frame gets memory of its own.
struct ReceiveKey {
  PeerId from;
  MessageType type = MessageType::heartbeat;
  std::uint64_t generation = 0, clock = 0;
  std::uint32_t key = 0;

  auto operator<=>(const ReceiveKey&) const = default;
};

// How a payload gets into its buffer: it replaces the content, or is added float by float. The buffer changes
// while the payload arrives. So if the frame breaks off, or its checksum is wrong, a part of the payload may
// be in the buffer.
enum class ReceiveMode { replace, add };

// Puts a payload into a buffer of the same length.
inline void put_into(std::span<std::byte> buffer, std::span<const std::byte> payload, ReceiveMode how,
                     kernels::Ops& ops) {
  if (how == ReceiveMode::replace) {
    std::memcpy(buffer.data(), payload.data(), payload.size());
  } else {
    const std::span sum(reinterpret_cast<float*>(buffer.data()), buffer.size() / sizeof(float));
    ops.add_scaled(sum, 1, {reinterpret_cast<const float*>(payload.data()), sum.size()}, sum);
  }
}

// Safe for one thread of a consumer and the thread that runs the transport's loop. A buffer belongs to the
// loop from post() until the event of its frame, or until cancel_all() returns.
class PostedReceives {
 public:
  void post(const ReceiveKey& key, std::span<std::byte> buffer, ReceiveMode how = ReceiveMode::replace) {
    const std::lock_guard lock(mutex_);
    waiting_[key] = {buffer, how, epoch_};
  }

  // Takes all buffers back. A half received frame is dropped, and the consumer must ask for it again.
  void cancel_all() {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    ++epoch_;
  }

  // Counts the calls of cancel_all(): a frame received before the last call is void.
  std::uint64_t epoch() const {
    const std::lock_guard lock(mutex_);
    return epoch_;
  }

  // For the loop: the right to fill a buffer until cancel_all().
  struct Ticket {
    std::span<std::byte> buffer;
    ReceiveMode how = ReceiveMode::replace;
    std::uint64_t epoch = 0;
  };
  std::optional<Ticket> claim(const ReceiveKey& key, std::size_t length) {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(key);
    if (found == waiting_.end() || found->second.buffer.size() != length) return {};
    const Ticket ticket = found->second;
    waiting_.erase(found);
    return ticket;
  }

  // Runs send(). Another thread may receive the answer into the buffer that send() reads. The answer always
  // comes after the send; the lock makes this order visible to the thread sanitizer, which assumes that a
  // system call reads until it returns.
  template <typename Send>
  auto sending(Send send) {
#ifdef MLK_SANITIZED
    const std::lock_guard lock(mutex_);
#endif
    return send();
  }

  // If the ticket was cancelled, returns false. Otherwise runs fill(buffer) and returns true.
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
  std::map<ReceiveKey, Ticket> waiting_;
};

// Takes the buffers back when it is destroyed. If it is declared after the buffers, the transport never
// writes into freed memory, however the scope ends.
class PostedReceivesGuard {
 public:
  explicit PostedReceivesGuard(PostedReceives& posted_receives) : posted_receives_(posted_receives) {}
  ~PostedReceivesGuard() { posted_receives_.cancel_all(); }
  PostedReceivesGuard(const PostedReceivesGuard&) = delete;
  PostedReceivesGuard& operator=(const PostedReceivesGuard&) = delete;

 private:
  PostedReceives& posted_receives_;
};

}  // namespace mlk::rt
