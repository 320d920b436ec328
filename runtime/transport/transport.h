// Messages between the processes of a run, over TCP, and over UNIX sockets within a host.
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
#include "runtime/transport/landings.h"
#include "runtime/transport/wire.h"

namespace mlk::rt {

// The time for which this host has been suspended since it was started. steady_clock does not count it.
std::chrono::nanoseconds time_suspended();

struct TransportOptions {
  Milliseconds heartbeat{500};
  Milliseconds suspect_after{5000};
  // After this silence a peer is lost, if its host does not acknowledge either or if something waits for it.
  Milliseconds lost_after{15000};
  Milliseconds handshake_timeout{5000};
  Milliseconds retry_min{50}, retry_max{1000};
  Milliseconds bind_patience{10000};  // for an address that an earlier incarnation still holds
  std::size_t max_strangers = 64;     // connections that have proved nothing yet; the oldest goes first
  std::uint32_t max_payload = 8u << 20;
  // The bytes that are held for one peer, each way: what has come from it and waits for receive(), and what
  // is queued for it. Beyond it nothing more is read from the peer, and nothing more taken for it; each can
  // be exceeded by one message.
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
  std::string address;  // host:port: where others dial us, and where we listen (a name: on all interfaces)
};

// A connection exists with each peer that was dialled or that dialled us, at most one per peer. Of two
// incarnations of a peer the one met later wins; the other is told so and never let in again. Threads: one
// consumer calls receive() and the landings; everything else is for any thread. `log` is called from any
// thread, one at a time.
class Transport {
 public:
  using LogLine = std::function<void(std::string_view)>;

  // Listens from here on. Throws Failure if the address cannot be bound.
  Transport(Identity self, const Key& key, TransportOptions options, LogLine log);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Own host:port, with the port that was really bound.
  const std::string& address() const;
  const Identity& self() const;

  // Keeps trying to be connected to the peer, at all addresses that its name has at that time.
  void dial(PeerId peer, const std::string& host_port);
  void stop_dialling(PeerId peer);

  // Sends in order; fills in the sender, length and checksum. With WhenFull::wait it returns when all but
  // this message has left; meanwhile messages are received. With WhenFull::refuse, for small messages that
  // cannot be sent later, the credit is the limit, and beyond it the connection is given up, since a gap
  // would be worse. False: not connected, or not any more. Only one of two peers may send the other more than
  // its credit in this way: who waits here does not take anything out with receive(). checksum: CRC-32C of
  // the payload, where it is known.
  bool send(PeerId to, const Header& header, std::span<const std::byte> payload = {},
            WhenFull when_full = WhenFull::wait, std::optional<std::uint32_t> checksum = {});

  // Whether send() would take a message without waiting. If not, Event::Kind::room says when it does: the way
  // to send much without standing still for a slow peer. True also if not connected.
  bool has_room(PeerId to);

  // The next event; nothing at the deadline. A deadline in the past only looks.
  std::optional<Event> receive(SteadyTime deadline);

  // Lets the receive() of now, or the next one, return without an event if there is none. From any thread.
  void nudge();

  // Buffers for frames that are to be received in place.
  Landings& landings();

  // Messages of something that is over, such as an earlier generation: dropped, and counted here.
  void count_late();
  std::uint64_t late_messages() const;

  // Bytes of payload that are held for peers now: at most twice the credit and a message for each. Besides, a
  // peer of this host shares 2 MiB of memory each way (shared_lane.h).
  std::size_t held_bytes() const;

  // Tells all peers how this process ends and closes. Bounded: a second at most. No send after it.
  void say_goodbye(int exit_code);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mlk::rt
