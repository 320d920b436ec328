// Events from the peers of a process: the transport produces them, and state machines handle them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/payload.h"
#include "runtime/transport/wire.h"

namespace mlk::rt {

using SteadyTime = std::chrono::steady_clock::time_point;
using Milliseconds = std::chrono::milliseconds;

// An event of the connection with a peer. The events of one peer are in order.
struct Event {
  enum class Kind {
    up,       // the peer has proved itself; incarnation and address are set
    down,     // the connection is gone; `proven`: the incarnation is dead, or certain to end soon
    silent,   // the peer has sent nothing for a while, and may be dead or alive; the connection stays
    audible,  // the peer sends again
    message,
    goodbye,   // the peer ends with the exit code header.clock; the event `down` follows
    replaced,  // a peer knows a newer incarnation of this process, so this process must end
    room,      // has_room() returned false, and would return true now
  };
  Kind kind = Kind::message;
  PeerId peer = {};
  std::uint64_t incarnation = 0;
  std::string address = {};
  bool proven = false;
  Header header = {};
  Bytes payload = {};             // empty if it was received into a posted buffer
  bool in_posted_buffer = false;  // the payload was received into the buffer given to post()
  // The checksum of the present content of the posted buffer, if known. A send() of the same bytes can use
  // it.
  std::optional<std::uint32_t> checksum = {};
};

}  // namespace mlk::rt
