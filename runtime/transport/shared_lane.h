// Memory that a process shares with a peer on its host, for large payloads one way: copied in by one, read
// where it lies by the other, and never through the kernel. The headers still go through their socket, which
// keeps the order and wakes the peer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace mlk::rt {

// Each payload lies in one piece, from the next multiple of 64 bytes on, or from the start where it would not
// fit before the end. Both ends count in the same way, so nothing about places travels. One end is for one
// thread at a time. The peer can spoil payloads by writing late, as it could have sent them spoilt; it cannot
// make the other end read or write outside.
class SharedLane {
 public:
  static constexpr std::size_t capacity = 2 << 20;  // bytes; more would leave the cache

  ~SharedLane();
  SharedLane(const SharedLane&) = delete;
  SharedLane& operator=(const SharedLane&) = delete;

  // The writer's end, of new memory, and in `fd` the descriptor for the reader, which the caller closes.
  // Nothing if the system gives none.
  static std::unique_ptr<SharedLane> create(int& fd);
  // The reader's end; the descriptor stays the caller's. Nothing if it is not one that create() makes: memory
  // that can be cut short would let the peer end this process.
  static std::unique_ptr<SharedLane> open(int fd);

  // Longer payloads may find no room even in an empty lane, since each lies in one piece.
  static constexpr std::size_t always_fits = capacity / 2;

  // Writer. False: there is no room at the moment.
  bool put(std::span<const std::byte> payload);
  // Writer: whether put() would take that length, at most always_fits. If not, release() says once that it
  // may.
  bool has_room(std::size_t length);

  // Reader: the next payload, of that length; valid until release(). Empty if no payload can have that
  // length.
  std::span<const std::byte> next(std::size_t length);
  // True: the writer waits for room, and half of the lane is free now. It is to be told.
  bool release();

 private:
  struct Control {
    alignas(64) std::atomic<std::uint64_t> released;  // the reader is done with all before
    alignas(64) std::atomic<std::uint64_t> wanted;    // the writer waits until so much is released
  };
  static constexpr std::uint64_t nothing_wanted = ~std::uint64_t{0};
  static constexpr std::size_t control_size = 4096, mapped = control_size + capacity;

  explicit SharedLane(std::byte* memory) : memory_(memory) {}
  static std::unique_ptr<SharedLane> map(int fd);
  Control& control() const { return *reinterpret_cast<Control*>(memory_); }
  bool fits(std::uint64_t begin, std::size_t length) const;
  std::byte* at(std::uint64_t position) const { return memory_ + control_size + position % capacity; }

  std::byte* const memory_;
  std::uint64_t position_ = 0;  // bytes that went through, gaps included
  std::uint64_t end_ = 0;       // reader: of what next() gave
};

}  // namespace mlk::rt
