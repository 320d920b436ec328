// Messages between the processes of a run, over TCP, and over UNIX sockets within one host.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/payload.h"
#include "runtime/transport/event.h"
#include "runtime/transport/handshake.h"
#include "runtime/transport/posted_receives.h"
#include "runtime/transport/wire.h"

namespace mlk::rt {

// How long this host has been suspended since its start. steady_clock does not include that time.
std::chrono::nanoseconds time_suspended();

struct TransportOptions {
  Milliseconds heartbeat{500};
  Milliseconds suspect_after{5000};
  // The shortest suspect_after of the peers: after a longer pause of this process, the peers may have closed
  // their connections with this process.
  Milliseconds suspected_after{5000};
  // After this silence, a peer is lost if its host also acknowledges no bytes, or if this process waits for
  // the peer.
  Milliseconds lost_after{15000};
  Milliseconds handshake_timeout{5000};
  Milliseconds retry_min{50}, retry_max{1000};
  Milliseconds bind_patience{10000};  // for an earlier incarnation to release the address
  std::size_t max_strangers = 64;     // unproven connections; a new one replaces the oldest
  std::uint32_t max_payload = 8u << 20;
  // The most bytes held for one peer in each direction: received and waiting for receive(), or queued for
  // sending. Beyond this limit, the transport reads nothing more from the peer, and accepts nothing more for
  // it. In each direction, one message may exceed the limit.
  std::size_t credit = std::size_t{4} << 20;
  bool unix_sockets = true;  // to peers of this host
  std::function<std::chrono::nanoseconds()> suspended = time_suspended;
};

// What send() does while the peer's queue is full.
enum class WhenFull { wait, refuse };

struct Identity {
  std::string run;
  PeerId id;
  std::uint64_t incarnation = 0;
  // host:port. The process listens there, and peers dial it. If the host is a name, the process listens on
  // all interfaces.
  std::string address;
};

// There is one connection at most with each peer that was dialled or has dialled this process. Of two
// incarnations of a peer, the one that connected later wins. The other incarnation gets a goodbye with the
// reason, and is never accepted again. Threads: one consumer calls receive() and posted_receives(); all other
// functions are for any thread. Any thread may call `log`, one at a time.
class Transport {
 public:
  using LogLine = std::function<void(std::string_view)>;

  // Starts to listen. Throws Failure if the address cannot be bound.
  Transport(Identity self, const Key& key, const TransportOptions& options, LogLine log);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // This process's host:port, with the port that was really bound.
  const std::string& address() const;
  const Identity& self() const;

  // Tries again and again to connect to the peer, at all addresses that its name has at the time.
  void dial(PeerId peer, const std::string& host_port);

  // Sends messages in order, and fills in sender, length and checksum. Returns false if the peer is not
  // connected, or not any more. WhenFull::wait: blocks until earlier messages are written. Meanwhile,
  // messages are received up to the credit, since nobody empties the inbox. So only one of two peers may send
  // more than its credit in this way. WhenFull::refuse, for small messages that cannot be sent later: if the
  // credit is used up, the transport closes the connection, since a missing message would be worse. checksum:
  // CRC-32C of the payload, if it is known.
  bool send(PeerId to, const Header& header, std::span<const std::byte> payload = {},
            WhenFull when_full = WhenFull::wait, std::optional<std::uint32_t> checksum = {});

  // Whether send() would accept a message without waiting. If not, the event Event::Kind::room reports when
  // there is room, so that a caller need not block on a slow peer. Also returns true if the peer is not
  // connected.
  bool has_room(PeerId to);

  // The next event, or nothing at the deadline. With a deadline in the past it does not wait.
  std::optional<Event> receive(SteadyTime deadline);

  // Makes the current or the next receive() return, without an event if there is none. For any thread.
  void nudge();

  // The buffers for frames that are to be received in place.
  PostedReceives& posted_receives();

  // Counts a message that the caller has dropped because it came too late, for example from an earlier
  // generation.
  void count_late();
  std::uint64_t late_messages() const;

  // Bytes of payload held now: for each peer and direction, at most the credit and one message. A peer of
  // this host also shares 2 MiB of memory in each direction (shared_lane.h).
  std::size_t held_bytes() const;

  // Reports to all peers how this process ends, and closes all connections. Takes a second at most. Do not
  // call send() afterwards.
  void send_goodbye(int exit_code);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mlk::rt
