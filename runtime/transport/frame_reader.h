// The receiving half of a connection: divides the bytes of a socket into frames, and puts each payload into
// its buffer.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "kernels/ops.h"
#include "runtime/base/payload.h"
#include "runtime/transport/posted_receives.h"
#include "runtime/transport/shared_lane.h"
#include "runtime/transport/wire.h"

namespace mlk::rt {

// The medium between two processes. Over TCP every payload has a checksum, since the checksum of TCP misses
// too many errors. Within one host, bytes are not damaged. So there is no checksum, and the field of the
// checksum says where the payload is.
enum class Medium { tcp, one_host };
inline constexpr std::uint32_t payload_follows = 0, payload_in_lane = 1;

struct Frame {
  Header header;
  Bytes payload;                  // empty if it was received into a posted buffer
  bool in_posted_buffer = false;  // the payload was received into the posted buffer
  std::uint64_t posted_epoch = 0;
  std::optional<std::uint32_t> posted_crc;  // of the present content of the buffer; only over TCP
};

// For one thread at a time.
class FrameReader {
 public:
  explicit FrameReader(Medium medium);
  ~FrameReader();
  FrameReader(const FrameReader&) = delete;
  FrameReader& operator=(const FrameReader&) = delete;

  struct Receiver {
    std::uint32_t length_limit = 0;
    bool trusted = false;  // the peer has proved itself: it may open a lane
    std::function<std::optional<PostedReceives::Ticket>(const Header&)> place;
    std::function<bool(Frame&&)> deliver;  // false: stop reading
    std::function<void()> announce_room;   // tells the waiting peer that its lane has room again
  };
  enum class End { more_later, end_of_stream, reset, unproven_loss, fault };
  // Reads until the socket is empty, until `paused`, or until 2 MiB are read, so that one busy peer does not
  // delay other peers. After a pause the caller calls read() even if the socket has no data, because bytes
  // that were read ahead may wait.
  End read(int fd, const Receiver& receiver, PostedReceives& posted_receives,
           const std::atomic<bool>& paused);
  WireFault fault() const { return fault_; }

 private:
  struct Received {
    ssize_t size = 0;
    int error = 0;
    bool all = false;  // the socket had no more bytes
  };
  Received receive(int fd, std::span<std::byte> straight, bool ahead);
  bool consume(const Receiver& receiver, PostedReceives& posted_receives, const std::atomic<bool>& paused);
  bool begin_payload(const Receiver& receiver, PostedReceives& posted_receives);
  bool take_from_lane(const Receiver& receiver, PostedReceives& posted_receives);
  bool finish_frame(const Receiver& receiver);
  bool open_lane();
  void absorb(std::span<const std::byte> bytes, PostedReceives& posted_receives);
  template <typename Fill>
  void take_in(std::size_t size, PostedReceives& posted_receives, Fill fill);
  template <typename Fill>
  void add_in(std::size_t size, PostedReceives& posted_receives, Fill fill);
  bool fail(WireFault fault);

  const Medium medium_;
  const std::unique_ptr<kernels::Ops> ops_;
  Bytes read_ahead_;
  std::span<const std::byte> ahead_;  // unconsumed bytes of read_ahead_; empty except during a pause
  std::array<std::byte, header_size> header_bytes_{};
  std::size_t header_filled_ = 0;
  bool in_payload_ = false;
  Frame frame_;
  std::optional<PostedReceives::Ticket> ticket_;
  std::size_t payload_filled_ = 0;
  std::uint32_t crc_ = 0, sum_crc_ = 0, received_frames_ = 0;
  bool taken_back_ = false;    // cancel_all() came before the end of the frame
  Bytes scratch_;              // the part of a payload that is to be added
  std::size_t odd_bytes_ = 0;  // at the front of scratch_: the beginning of a float
  int descriptor_ = -1;        // the descriptor of a lane, until the frame `lane` is complete
  std::unique_ptr<SharedLane> lane_;
  WireFault fault_ = WireFault::none;
};

}  // namespace mlk::rt
