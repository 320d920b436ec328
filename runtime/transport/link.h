// One connection with a peer: sends frames through a bounded queue, and owns the reader of incoming frames.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/payload.h"
#include "runtime/transport/frame_reader.h"
#include "runtime/transport/shared_lane.h"
#include "runtime/transport/wire.h"

namespace mlk::rt {

// Threads: send(), has_room() and queued_bytes() are for any thread, everything else for the thread that runs
// the transport's loop.
class Link {
 public:
  // Owns the non-blocking socket, and updates its events in `epoll`, under the number `id`.
  Link(int fd, int epoll, std::uint64_t id, std::string remote, Medium medium);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Sending.
  enum class Sent { yes, full, closed };
  // Fills in length, checksum and sequence. Writes at once as many bytes as the socket takes, and queues the
  // rest. Returns Sent::full if bytes are queued already, and together with the payload they exceed `limit`.
  // With limit 0, also returns Sent::full if the payload would fit into an empty lane, but does not fit now.
  Sent send(Header header, std::span<const std::byte> payload, std::size_t limit,
            std::optional<std::uint32_t> checksum = {});
  // Whether the queue is empty, and the lane has room for another payload of the last size. After has_room()
  // has returned false, the caller calls room_again() after each flush() and read().
  bool has_room();
  bool room_again();  // true once: when there is room after has_room() returned false
  void flush();
  int send_error() const;  // the errno of the last failed write; 0: none failed
  bool drained() const;
  bool waited_for() const;  // bytes in the queue, or a sender without room, wait for the peer
  std::size_t queued_bytes() const;
  void shut_down_sending();  // queued bytes are lost
  void close();
  // Like close() for this side. The other side sees no end of the connection until close().
  void give_up();

  // Receiving.
  FrameReader::End read(const FrameReader::Receiver& receiver, PostedReceives& posted_receives) {
    return reader_.read(fd_, receiver, posted_receives, paused_);
  }
  WireFault fault() const { return reader_.fault(); }

  void pause();  // read() reads nothing until resume()
  void resume();
  bool paused() const { return paused_.load(); }

  std::uint64_t id() const { return id_; }
  int fd() const { return fd_; }
  const std::string& remote() const { return remote_; }
  Medium medium() const { return medium_; }
  void want_write();  // called while the connection is being made
  // Called when the handshake is over, since the round-trip time is known then.
  void suit_send_buffer();

 private:
  // The caller holds mutex_.
  void update_interest();
  bool for_lane(const Header& header, std::span<const std::byte> payload);
  bool room() const;
  void open_lane(const Header& before);
  std::size_t write(std::span<const std::byte> head, std::span<const std::byte> payload);
  void queue(std::span<const std::byte> head, std::span<const std::byte> payload, std::size_t sent);

  const int epoll_;
  const std::uint64_t id_;
  const std::string remote_;
  const Medium medium_;
  int fd_;

  mutable std::mutex mutex_;
  std::deque<Bytes> queue_;
  std::size_t queued_bytes_ = 0, front_sent_ = 0;
  std::uint32_t sent_frames_ = 0;
  bool closed_ = false, given_up_ = false, want_write_ = false, room_wanted_ = false;
  int send_error_ = 0;
  std::uint32_t interest_ = 0;  // 0: not in epoll
  std::atomic<bool> paused_{false};
  std::unique_ptr<SharedLane> lane_;
  bool lane_tried_ = false;
  std::size_t lane_payload_ = 0;  // the size of the last payload, up to SharedLane::always_fits

  FrameReader reader_;
};

}  // namespace mlk::rt
