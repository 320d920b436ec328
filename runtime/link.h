// One TCP connection cut into frames: a bounded queue out, a parser in.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "runtime/landings.h"
#include "runtime/payload.h"
#include "runtime/wire.h"

namespace mlk::rt {

enum class WhenFull { wait, refuse };

// Threads: send() and resume() are for any thread, everything else for the network thread alone.
class Link {
 public:
  // Takes the non-blocking socket over, and keeps its interest in `epoll` up to date under its own number
  // `id`.
  Link(int fd, int epoll, std::uint64_t id, std::string remote);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // ---- out
  // Fills length, checksum and sequence. Writes at once what the socket takes and queues the rest. Beyond
  // `limit` queued bytes it waits for room or refuses. False: refused, or the connection is closed.
  bool send(Header header, std::span<const std::byte> payload, std::size_t limit, WhenFull when_full);
  bool flush();            // false: the connection is broken
  int send_error() const;  // the errno of the last failed write, 0 without one
  bool drained() const;
  void shut_down_sending();  // what is queued is lost
  void close();              // wakes whoever waits in send()

  // ---- in
  struct Frame {
    Header header;
    Bytes payload;        // empty if it landed
    bool landed = false;  // in the buffer that was named for it
    std::uint64_t landed_epoch = 0;
  };
  struct Receiver {
    std::uint32_t length_limit = 0;
    std::function<std::optional<Landings::Ticket>(const Header&)> place;
    std::function<bool(Frame&&)> deliver;  // false: stop reading
  };
  enum class ReadEnd { more_later, end_of_stream, reset, unproven_loss, fault };
  ReadEnd read(const Receiver& receiver, Landings& landings);
  WireFault fault() const { return fault_; }

  // Back-pressure: undelivered bytes of this connection, and whether reading pauses because of them.
  std::atomic<std::size_t> undelivered{0};
  void pause();
  void resume();
  bool paused() const { return paused_.load(); }

  std::uint64_t id() const { return id_; }
  int fd() const { return fd_; }
  const std::string& remote() const { return remote_; }
  void want_write();  // while the connection is being made

 private:
  void update_interest();  // holds mutex_
  bool consume(std::span<const std::byte> bytes, const Receiver& receiver, Landings& landings);
  bool begin_payload(const Receiver& receiver);
  bool finish_frame(const Receiver& receiver);
  void absorb(std::span<const std::byte> bytes, Landings& landings);
  ReadEnd read_straight(Landings& landings, std::size_t& received);

  const int epoll_;
  const std::uint64_t id_;
  const std::string remote_;
  int fd_;

  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::deque<Bytes> queue_;
  std::size_t queued_bytes_ = 0, front_sent_ = 0;
  std::uint32_t sent_frames_ = 0;
  bool closed_ = false, want_write_ = false;
  int send_error_ = 0;
  std::uint32_t interest_ = 0;
  std::atomic<bool> paused_{false};

  Bytes read_ahead_;
  std::array<std::byte, header_size> header_bytes_{};
  std::size_t header_filled_ = 0;
  bool in_payload_ = false;
  Frame frame_;
  std::optional<Landings::Ticket> ticket_;
  std::size_t payload_filled_ = 0;
  std::uint32_t crc_ = 0, received_frames_ = 0;
  bool discard_ = false;
  WireFault fault_ = WireFault::none;
};

}  // namespace mlk::rt
