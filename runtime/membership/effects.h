// The actions that a state machine returns. Machines are pure: the caller passes in each event and the time,
// and the machine returns effects. In a process, Peers::execute() executes the effects. In a test, the
// simulator in tests/sim delivers them.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/payload.h"
#include "runtime/transport/wire.h"

namespace mlk::rt {

struct Effects {
  struct Message {
    PeerId to;
    Header header;  // type and its fields; the transport fills in sender, length and checksum
    Bytes payload;
  };
  struct Dial {
    PeerId peer;
    std::string address;  // host:port
  };
  struct Line {  // of the log
    std::string text;
  };
  using Effect = std::variant<Message, Dial, Line>;

  std::vector<Effect> in_order;

  template <typename Encoded>  // a message of a protocol, as the result of its encode()
    requires requires(Encoded message) { message.header, message.payload; }
  void send(PeerId to, Encoded message) {
    in_order.emplace_back(Message{to, message.header, std::move(message.payload)});
  }
  void dial(PeerId peer, std::string address) { in_order.emplace_back(Dial{peer, std::move(address)}); }
  void log(std::string line) { in_order.emplace_back(Line{std::move(line)}); }
};

}  // namespace mlk::rt
