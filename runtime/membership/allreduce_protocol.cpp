// The places of the fields in the messages of allreduce.
#include "runtime/membership/allreduce_protocol.h"

#include <utility>

namespace mlk::rt {
namespace {

constexpr std::uint64_t no_step = ~std::uint64_t{0};  // header.clock of a sender without a state
constexpr std::uint32_t most_members = 65536;

EncodedMessage message(MessageType type, std::uint64_t generation, std::uint64_t clock = 0,
                       PayloadWriter payload = {}) {
  return {{.type = type, .generation = generation, .clock = clock}, std::move(payload).take()};
}

}  // namespace

// header.clock: the step of the sender's state.
EncodedMessage encode(const StatusMessage& status) {
  return message(MessageType::status, status.generation, status.step.value_or(no_step),
                 PayloadWriter().put(status.lineage, std::uint8_t{status.waits_for_sum}));
}

std::optional<StatusMessage> decode_status(const Header& header, std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  StatusMessage status{header.generation, reader.get<std::uint64_t>(), {}, false};
  if (header.clock != no_step) status.step = header.clock;
  const auto waits_for_sum = reader.get<std::uint8_t>();
  status.waits_for_sum = waits_for_sum == 1;
  if (!reader.complete() || waits_for_sum > 1) return {};
  return status;
}

// header.clock: the generation that the proposal follows.
EncodedMessage encode(const ProposeMessage& propose) {
  PayloadWriter payload;
  payload.put(propose.lineage, static_cast<std::uint32_t>(propose.members.size()));
  for (const auto& [member, address] : propose.members)
    payload.put(member.rank, member.incarnation).text(address);
  return message(MessageType::propose, propose.number, propose.follows, std::move(payload));
}

std::optional<ProposeMessage> decode_propose(const Header& header, std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  ProposeMessage propose{header.generation, header.clock, reader.get<std::uint64_t>(), {}};
  const auto count = reader.get<std::uint32_t>();
  if (count > most_members) return {};
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    ProposeMessage::Invited invited;
    reader.read(invited.member.rank, invited.member.incarnation, invited.address);
    propose.members.push_back(std::move(invited));
  }
  if (!reader.complete()) return {};
  return propose;
}

// header.clock: the step of the sender's state, header.offset: the summed_in of this state.
EncodedMessage encode(const AcceptMessage& accept) {
  const StateVersion state = accept.state.value_or(StateVersion{.step = no_step});
  EncodedMessage made =
      message(MessageType::accept, accept.number, state.step, PayloadWriter().put(state.lineage));
  made.header.offset = state.summed_in;
  return made;
}

std::optional<AcceptMessage> decode_accept(const Header& header, std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  AcceptMessage accept{header.generation, {}};
  const StateVersion state{header.clock, header.offset, reader.get<std::uint64_t>()};
  if (state.step != no_step) accept.state = state;
  if (!reader.complete()) return {};
  return accept;
}

// header.clock: the number that the sender refuses. header.key: 1 + the rank that the sender cannot reach, or
// 0 if the sender refuses for another reason.
EncodedMessage encode(const RefuseMessage& refuse) {
  EncodedMessage made = message(MessageType::refuse, refuse.promised, refuse.refused);
  if (refuse.unreachable) made.header.key = *refuse.unreachable + 1;
  return made;
}

RefuseMessage decode_refuse(const Header& header) {
  RefuseMessage refuse{header.generation, header.clock, {}};
  if (header.key > 0) refuse.unreachable = header.key - 1;
  return refuse;
}

// header.clock: the step; header.key: the source.
EncodedMessage encode(const BeginMessage& begin) {
  PayloadWriter payload;
  payload.put(begin.restarts, static_cast<std::uint32_t>(begin.lagging.size()));
  for (const std::uint32_t rank : begin.lagging) payload.put(rank);
  EncodedMessage made = message(MessageType::begin, begin.number, begin.step, std::move(payload));
  made.header.key = begin.source;
  return made;
}

std::optional<BeginMessage> decode_begin(const Header& header, std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  BeginMessage begin{header.generation, header.clock, reader.get<std::uint64_t>(), header.key, {}};
  const auto count = reader.get<std::uint32_t>();
  if (count > most_members) return {};
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) begin.lagging.insert(reader.get<std::uint32_t>());
  if (!reader.complete()) return {};
  return begin;
}

EncodedMessage encode(const TroubleMessage& trouble) {
  return message(MessageType::trouble, trouble.generation);
}

TroubleMessage decode_trouble(const Header& header) { return {header.generation}; }

// header.clock: the step.
EncodedMessage encode(const StateMessage& state) {
  PayloadWriter payload;
  payload.put(state.position, state.state_since, state.summed_in).raw(state.floats);
  EncodedMessage made = message(MessageType::feed, state.generation, state.step, std::move(payload));
  made.header.offset = state.offset;
  return made;
}

std::optional<StateMessage> decode_state(const Header& header, std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  StateMessage state{.generation = header.generation, .step = header.clock, .offset = header.offset};
  reader.read(state.position, state.state_since, state.summed_in);
  state.floats = reader.raw(reader.left());
  if (!reader.ok() || state.floats.size() % sizeof(float) != 0) return {};
  return state;
}

EncodedMessage encode(const DoneMessage& done) {
  return message(MessageType::done, done.generation, 0, PayloadWriter().text(done.result));
}

std::optional<DoneMessage> decode_done(const Header& header, std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  DoneMessage done{header.generation, reader.text()};
  if (!reader.complete()) return {};
  return done;
}

}  // namespace mlk::rt
