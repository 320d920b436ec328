// Every message of a simulated run takes the form that it has on the wire, and is read back.
#pragma once

#include "runtime/base/payload.h"
#include "runtime/transport/wire.h"

namespace mlk::sim {

// The header as the receiver reads it. Throws Violation if the codecs of the wire or of the protocol of
// allreduce do not give back what they were given, and for a type that codec.cpp has no case for.
rt::Header through_codecs(rt::PeerId sender, rt::Header header, const rt::Bytes& payload);

}  // namespace mlk::sim
