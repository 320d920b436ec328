// Every message of a simulated run with parameter servers goes through the real codecs.
#pragma once

#include <string>
#include <utility>

#include "runtime/membership/effects.h"
#include "runtime/transport/event.h"

namespace mlk::sim {

// The message as the receiver decodes it from the bytes that are sent. Throws Violation if it differs from
// the message that was sent, and for a type without a case in ps_wire.cpp.
std::pair<rt::Header, rt::Bytes> through_ps_codecs(rt::PeerId from, std::uint64_t incarnation,
                                                   const rt::Header& header, const rt::Bytes& payload);

std::string describe_ps(const rt::Event& event);

}  // namespace mlk::sim
