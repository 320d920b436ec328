// Memory shared with a peer on the same host, for large payloads in one direction. The writer copies a
// payload in, and the reader reads it in place, without a copy by the kernel. The headers still go through
// the socket, which keeps the order and wakes the peer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace mlk::rt {

// Each payload is contiguous: it begins at the next multiple of 64 bytes, or at the start of the memory if it
// would not fit before the end. Both ends compute the places in the same way. Each end is for one thread at a
// time. The peer can spoil payloads by writing late, just as it could send spoilt payloads; it cannot make
// this process read or write outside the memory.
class SharedLane {
 public:
  static constexpr std::size_t capacity = 2 << 20;  // bytes; more would not stay in the cache

  ~SharedLane();
  SharedLane(const SharedLane&) = delete;
  SharedLane& operator=(const SharedLane&) = delete;

  // The writer's end, in new memory. `fd` becomes the descriptor for the reader; the caller closes it.
  // Returns nothing if the system gives no memory.
  static std::unique_ptr<SharedLane> create(int& fd);
  // The reader's end; the caller keeps the descriptor. Returns nothing if the memory is not from create():
  // the peer could truncate other memory and so crash this process.
  static std::unique_ptr<SharedLane> open(int fd);

  // Longer payloads may not fit even into an empty lane, since each payload is contiguous.
  static constexpr std::size_t always_fits = capacity / 2;

  // Writer: returns false if the lane has no room at the moment.
  bool put(std::span<const std::byte> payload);
  // Writer: whether a payload of that length, at most always_fits, has room now. If not, release() returns
  // true once there may be room.
  bool has_room(std::size_t length);

  // Reader: the next payload, of that length; valid until release(). Empty if no payload can have that
  // length.
  std::span<const std::byte> next(std::size_t length);
  // Reader: frees the memory of the last payload. Returns true if the writer waits for room and half of the
  // lane is free now: then the reader must notify the writer.
  bool release();

 private:
  struct Control {
    alignas(64) std::atomic<std::uint64_t> released;  // the reader is done with all bytes before it
    alignas(64) std::atomic<std::uint64_t> wanted;    // the writer waits until this position is released
  };
  static constexpr std::uint64_t nothing_wanted = ~std::uint64_t{0};
  static constexpr std::size_t control_size = 4096, mapped = control_size + capacity;

  explicit SharedLane(std::byte* memory) : memory_(memory) {}
  static std::unique_ptr<SharedLane> map(int fd);
  Control& control() const { return *reinterpret_cast<Control*>(memory_); }
  bool fits(std::uint64_t begin, std::size_t length) const;
  std::byte* at(std::uint64_t position) const { return memory_ + control_size + position % capacity; }

  std::byte* const memory_;
  std::uint64_t position_ = 0;  // bytes that passed through, gaps included
  std::uint64_t end_ = 0;       // reader: the end of what next() returned
};

}  // namespace mlk::rt
