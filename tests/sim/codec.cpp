#include "tests/sim/codec.h"

#include <algorithm>
#include <optional>
#include <string>

#include "runtime/membership/allreduce_protocol.h"
#include "tests/sim/invariants.h"

namespace mlk::sim {
namespace {

constexpr std::uint32_t longest_payload = 1 << 30;

// Returns the message, decoded and encoded again. Returns nothing for a part of a sum, since floats have no
// codec.
std::optional<rt::EncodedMessage> again(const rt::Header& header, const rt::Bytes& payload) {
  const auto encoded = [](const auto& message) { return std::optional(encode(message.value())); };
  switch (header.type) {
    case rt::MessageType::status:
      return encoded(rt::decode_status(header, payload));
    case rt::MessageType::propose:
      return encoded(rt::decode_propose(header, payload));
    case rt::MessageType::accept:
      return encoded(rt::decode_accept(header, payload));
    case rt::MessageType::refuse:
      return encode(rt::decode_refuse(header));
    case rt::MessageType::begin:
      return encoded(rt::decode_begin(header, payload));
    case rt::MessageType::feed:
      return encoded(rt::decode_state(header, payload));
    case rt::MessageType::trouble:
      return encode(rt::decode_trouble(header));
    case rt::MessageType::done:
      return encoded(rt::decode_done(header, payload));
    case rt::MessageType::reduce:
      return {};
    default:
      throw Violation("a message that tests/sim/codec.cpp does not know: type " +
                      std::to_string(static_cast<int>(header.type)));
  }
}

}  // namespace

rt::Header through_codecs(rt::PeerId sender, rt::Header header, const rt::Bytes& payload) {
  if (const auto message = again(header, payload);
      message && (message->header != header || !std::ranges::equal(message->payload, payload)))
    throw Violation("a message is not what it was encoded from: type " +
                    std::to_string(static_cast<int>(header.type)));
  header.sender = sender;
  header.length = static_cast<std::uint32_t>(payload.size());
  rt::Header read;
  if (const auto fault = rt::decode(rt::encode(header), longest_payload, read);
      fault != rt::WireFault::none || read != header)
    throw Violation("a header is not what it was encoded from: " + std::string(rt::describe(fault)));
  return read;
}

}  // namespace mlk::sim
