#include "tests/sim/ps_wire.h"

#include <array>
#include <map>

#include "runtime/ps/machines/protocol.h"
#include "tests/sim/invariants.h"

namespace mlk::sim {
namespace {

using rt::Bytes;
using rt::Header;
using rt::MessageType;

const char* name_of(MessageType type) {
  static const std::map<MessageType, const char*> names = {
      {MessageType::join, "join"},         {MessageType::seed_wanted, "seed_wanted"},
      {MessageType::seed, "seed"},         {MessageType::seeded, "seeded"},
      {MessageType::ready, "ready"},       {MessageType::work, "work"},
      {MessageType::wait, "wait"},         {MessageType::push, "push"},
      {MessageType::accepted, "accepted"}, {MessageType::pull, "pull"},
      {MessageType::weights, "weights"},   {MessageType::trained, "trained"},
      {MessageType::reported, "reported"}, {MessageType::finish, "finish"},
      {MessageType::capture, "capture"},   {MessageType::captured, "captured"},
      {MessageType::written, "written"},   {MessageType::cut_off, "cut_off"}};
  const auto found = names.find(type);
  return found == names.end() ? "?" : found->second;
}

// The payload, decoded and encoded again. Returns a payload unchanged if ps/machines/protocol.h has no codec
// for it: floats, a text, or nothing.
Bytes again(rt::PeerId from, const Header& header, const Bytes& payload) {
  const auto both = [](const auto& message) { return message ? encode(*message) : Bytes(); };
  switch (header.type) {
    case MessageType::join:
      return from.role == rt::Role::worker ? both(rt::decode_join(header, payload)) : payload;
    case MessageType::ready:
      return both(rt::decode_ready(payload));
    case MessageType::work:
      return both(rt::decode_work(payload));
    case MessageType::trained:
      return both(rt::decode_trained(payload));
    case MessageType::capture:
      return both(rt::decode_capture(header, payload));
    case MessageType::written:
      return both(rt::decode_written(header, payload));
    case MessageType::seed_wanted:
    case MessageType::seed:
    case MessageType::seeded:
    case MessageType::wait:
    case MessageType::push:
    case MessageType::accepted:
    case MessageType::pull:
    case MessageType::weights:
    case MessageType::reported:
    case MessageType::finish:
    case MessageType::captured:
    case MessageType::cut_off:
      return payload;
    default:
      throw Violation("a message that tests/sim/ps_wire.cpp does not know: type " +
                      std::to_string(static_cast<int>(header.type)));
  }
}

}  // namespace

std::pair<Header, Bytes> through_ps_codecs(rt::PeerId from, std::uint64_t incarnation, const Header& header,
                                           const Bytes& payload) {
  Header sent = header;
  sent.sender = from;
  sent.incarnation = incarnation;
  sent.length = static_cast<std::uint32_t>(payload.size());
  Header read;
  const auto bytes = rt::encode(sent);
  const auto fault = rt::decode(std::span<const std::byte, rt::header_size>(bytes), 1u << 20, read);
  if (fault != rt::WireFault::none || read != sent)
    throw Violation(std::string("the header of ") + name_of(header.type) + " does not survive its codec");
  if (again(from, read, payload) != payload)
    throw Violation(std::string("the payload of ") + name_of(header.type) + " does not survive its codec");
  return {read, payload};
}

std::string describe_ps(const rt::Event& event) {
  const Header& h = event.header;
  return std::string("hears ") + name_of(h.type) + " of " + to_string(event.peer) + ": generation " +
         std::to_string(h.generation) + ", clock " + std::to_string(h.clock) + ", key " +
         std::to_string(h.key) + ", offset " + std::to_string(h.offset) + ", flags " +
         std::to_string(h.flags);
}

}  // namespace mlk::sim
