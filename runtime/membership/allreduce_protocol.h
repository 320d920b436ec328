// What the ranks of an allreduce run say to each other to agree on generations. A message is a header and a
// payload; which field lies where is known to allreduce_protocol.cpp alone.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/payload.h"
#include "runtime/membership/membership.h"
#include "runtime/transport/wire.h"

namespace mlk::rt {

// Equal versions mean bit-identical states: of one sum all members get the same bits.
struct StateVersion {
  std::uint64_t step = 0;
  std::uint64_t summed_in = 0;  // the generation of the last sum; 0: none since the checkpoint or the start
  std::uint64_t lineage = 0;    // of the last generation in which it was the state, or for which it was made

  auto operator<=>(const StateVersion&) const = default;
};

// Which generation the sender is in, and what it has.
struct StatusMessage {
  std::uint64_t generation = 0;       // 0: none
  std::uint64_t lineage = 0;          // of that generation: the start of the run that it descends from
  std::optional<std::uint64_t> step;  // of the sender's state; nothing without one
  bool waits_for_sum = false;         // of that step: the sender has computed its part
};

// Asks the members of a generation to be for their votes.
struct ProposeMessage {
  struct Invited {
    Member member;
    std::string address;  // where it is dialled; empty where everyone knows it from the start
  };
  std::uint64_t number = 0, follows = 0;  // follows: the generation that the proposer is in
  std::uint64_t lineage = 0;
  std::vector<Invited> members;
};

struct AcceptMessage {
  std::uint64_t number = 0;
  std::optional<StateVersion> state;  // of the sender
};

struct RefuseMessage {
  std::uint64_t promised = 0, refused = 0;   // the highest number promised by the sender; the one it refuses
  std::optional<std::uint32_t> unreachable;  // the rank that it cannot reach, if that is the reason
};

// The proposer says that all have accepted.
struct BeginMessage {
  std::uint64_t number = 0, step = 0, restarts = 0;
  std::uint32_t source = 0;         // the rank that sends the state to those that lag
  std::set<std::uint32_t> lagging;  // ranks whose state is another
};

// The sender has given a step of this generation up.
struct TroubleMessage {
  std::uint64_t generation = 0;
};

// A part of the state of the rank that sends it to those that lag.
struct StateMessage {
  std::uint64_t generation = 0, step = 0, position = 0;
  std::uint64_t state_since = 0;      // as in TrainingState
  std::uint64_t summed_in = 0;        // as in StateVersion
  std::uint64_t offset = 0;           // of these floats in the parameters with the optimizer's state behind
  std::span<const std::byte> floats;  // of the sender's state; decoded: in the payload
};

// The run is trained.
struct DoneMessage {
  std::uint64_t generation = 0;
  std::string result;  // of the rank that reported
};

struct EncodedMessage {
  Header header;
  Bytes payload;
};
EncodedMessage encode(const StatusMessage& status);
EncodedMessage encode(const ProposeMessage& propose);
EncodedMessage encode(const AcceptMessage& accept);
EncodedMessage encode(const RefuseMessage& refuse);
EncodedMessage encode(const BeginMessage& begin);
EncodedMessage encode(const TroubleMessage& trouble);
EncodedMessage encode(const StateMessage& state);
EncodedMessage encode(const DoneMessage& done);

// Nothing for a payload that is cut off, has bytes left over, or names too many ranks. The type of the header
// is not looked at.
std::optional<StatusMessage> decode_status(const Header& header, std::span<const std::byte> payload);
std::optional<ProposeMessage> decode_propose(const Header& header, std::span<const std::byte> payload);
std::optional<AcceptMessage> decode_accept(const Header& header, std::span<const std::byte> payload);
RefuseMessage decode_refuse(const Header& header);
std::optional<BeginMessage> decode_begin(const Header& header, std::span<const std::byte> payload);
TroubleMessage decode_trouble(const Header& header);
std::optional<StateMessage> decode_state(const Header& header, std::span<const std::byte> payload);
std::optional<DoneMessage> decode_done(const Header& header, std::span<const std::byte> payload);

}  // namespace mlk::rt
