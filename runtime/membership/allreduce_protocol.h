// The messages by which the ranks of an allreduce run agree on generations. A message is a header and a
// payload. Only allreduce_protocol.cpp knows the places of the fields.
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

// Equal versions mean bit-identical states: all members get the same bits from one sum.
struct StateVersion {
  std::uint64_t step = 0;
  std::uint64_t summed_in =
      0;  // the generation of the last sum; 0: no sum yet since the state was loaded or made
  std::uint64_t lineage = 0;  // of the last generation that had the state, or for which the state was made

  auto operator<=>(const StateVersion&) const = default;
};

// The generation of the sender, and its state.
struct StatusMessage {
  std::uint64_t generation = 0;       // 0: the sender is in no generation
  std::uint64_t lineage = 0;          // the start of the run from which that generation descends
  std::optional<std::uint64_t> step;  // of the sender's state, if it has a state
  bool waits_for_sum = false;         // the sender has computed its part of the step, and waits for the sum
};

// Asks the members of a proposed generation for their votes.
struct ProposeMessage {
  struct Invited {
    Member member;
    std::string address;  // where others dial the member; empty if all know the address from the start
  };
  std::uint64_t number = 0, follows = 0;  // follows: the generation that the proposer is in
  std::uint64_t lineage = 0;
  std::vector<Invited> members;
};

struct AcceptMessage {
  std::uint64_t number = 0;
  std::optional<StateVersion> state;  // the version of the sender's state, if it has a state
};

struct RefuseMessage {
  std::uint64_t promised = 0, refused = 0;   // the sender's highest promised number; the refused number
  std::optional<std::uint32_t> unreachable;  // the rank that the sender cannot reach, if that is the reason
};

// The proposer reports that all members have accepted.
struct BeginMessage {
  std::uint64_t number = 0, step = 0, restarts = 0;
  std::uint32_t source = 0;         // the rank that sends the state to those that lag
  std::set<std::uint32_t> lagging;  // ranks whose state differs from the newest state
};

// The sender has abandoned a step of this generation.
struct TroubleMessage {
  std::uint64_t generation = 0;
};

// A part of the state, which the source sends to the ranks that lag.
struct StateMessage {
  std::uint64_t generation = 0, step = 0, position = 0;
  std::uint64_t state_since = 0;  // as in TrainingState
  std::uint64_t summed_in = 0;    // as in StateVersion
  std::uint64_t offset = 0;       // of the first float, in the parameters followed by the optimizer's state
  std::span<const std::byte> floats = {};  // after decoding: a part of the payload
};

// The run is trained.
struct DoneMessage {
  std::uint64_t generation = 0;
  std::string result;  // of the run, from the rank that reported
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

// Returns nothing for a payload that is cut off, has bytes left over, or names too many ranks. The functions
// do not check the type of the header.
std::optional<StatusMessage> decode_status(const Header& header, std::span<const std::byte> payload);
std::optional<ProposeMessage> decode_propose(const Header& header, std::span<const std::byte> payload);
std::optional<AcceptMessage> decode_accept(const Header& header, std::span<const std::byte> payload);
RefuseMessage decode_refuse(const Header& header);
std::optional<BeginMessage> decode_begin(const Header& header, std::span<const std::byte> payload);
TroubleMessage decode_trouble(const Header& header);
std::optional<StateMessage> decode_state(const Header& header, std::span<const std::byte> payload);
std::optional<DoneMessage> decode_done(const Header& header, std::span<const std::byte> payload);

}  // namespace mlk::rt
