// Every message of a simulated run is encoded as on the wire, and decoded again.
#pragma once

#include "runtime/base/payload.h"
#include "runtime/transport/wire.h"

namespace mlk::sim {

// The header as the receiver reads it. Throws Violation if the codecs of the wire or of the allreduce
// protocol do not return what they were given, and for a type without a case in codec.cpp.
rt::Header through_codecs(rt::PeerId sender, rt::Header header, const rt::Bytes& payload);

}  // namespace mlk::sim
