// Events from the peers of a process: the transport produces them, state machines take them in.
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

// An event of the connection with a peer. Events of a peer are in order.
struct Event {
  enum class Kind {
    up,       // the peer has proved itself; incarnation and address are set
    down,     // the connection is gone; `proven`: the incarnation is dead, or is known to be soon
    silent,   // nothing heard for a while, dead or not; the connection stays
    audible,  // heard again
    message,
    goodbye,   // the peer ends with the exit code header.clock; down follows
    replaced,  // a peer knows a newer incarnation of this process: it must end
    room,      // has_room() was false, and is true again
  };
  Kind kind = Kind::message;
  PeerId peer = {};
  std::uint64_t incarnation = 0;
  std::string address = {};
  bool proven = false;
  Header header = {};
  Bytes payload = {};             // empty if it was received into a posted buffer
  bool in_posted_buffer = false;  // it was received into the buffer given to post()
  // The checksum of what is in that buffer now, if it is known: a send() of the same bytes can use it.
  std::optional<std::uint32_t> checksum = {};
};

}  // namespace mlk::rt
