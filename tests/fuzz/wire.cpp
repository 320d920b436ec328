// Headers and payloads as a stranger may send them. The checksum would reject nearly every input, so a flag
// in the input says whether the fuzzer corrects magic, version and checksum before it decodes the header.
#include "runtime/transport/wire.h"

#include <algorithm>
#include <cstdint>
#include <fuzzer/FuzzedDataProvider.h>

#include "runtime/base/crc32c.h"
#include "runtime/membership/allreduce_protocol.h"
#include "runtime/ps/machines/protocol.h"
#include "runtime/transport/handshake.h"
#include "tests/fuzz/demand.h"

using namespace mlk::rt;
using mlk::fuzz::demand;

namespace {

using HeaderBytes = std::array<std::byte, header_size>;

void put_right(HeaderBytes& bytes) {
  const HeaderBytes good = encode(Header());
  std::copy_n(good.begin(), 5, bytes.begin());
  const std::uint32_t crc = crc32c(bytes.data(), header_size - sizeof(std::uint32_t));
  std::memcpy(bytes.data() + header_size - sizeof crc, &crc, sizeof crc);
}

// If a payload can be decoded, it has the same content when it is encoded again.
void read_payload(const Header& header, std::span<const std::byte> payload) {
  if (const auto hello = read_hello(header, payload)) {
    demand(std::ranges::equal(hello_payload(*hello), payload));
  }
  if (const auto challenge = read_challenge(header, payload)) {
    demand(std::ranges::equal(challenge_payload(challenge->listener, challenge->proof), payload));
  }
  if (const auto proof = read_proof(payload)) demand(std::ranges::equal(proof_payload(*proof), payload));
  if (const auto join = decode_join(header, payload)) demand(std::ranges::equal(encode(*join), payload));
  if (const auto ready = decode_ready(payload)) demand(decode_ready(encode(*ready)).has_value());
  if (const auto work = decode_work(payload)) demand(decode_work(encode(*work)).has_value());
  if (const auto trained = decode_trained(payload)) {
    demand(decode_trained(encode(*trained)).has_value());
  }
  if (const auto status = decode_status(header, payload))
    demand(std::ranges::equal(encode(*status).payload, payload));
  if (const auto propose = decode_propose(header, payload))
    demand(std::ranges::equal(encode(*propose).payload, payload));
  if (const auto begin = decode_begin(header, payload)) {
    const auto again = encode(*begin);
    demand(decode_begin(again.header, again.payload)->lagging == begin->lagging);
  }
  if (const auto done = decode_done(header, payload))
    demand(std::ranges::equal(encode(*done).payload, payload));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  const bool right = input.ConsumeBool();
  const std::uint32_t limit = input.ConsumeBool() ? handshake_payload_limit : 64u << 20;
  HeaderBytes bytes{};
  input.ConsumeData(bytes.data(), bytes.size());
  if (right) put_right(bytes);
  Header header;
  if (decode(bytes, limit, header) == WireFault::none) {
    demand(header.length <= limit);
    demand(encode(header) == bytes);
  }
  const auto payload = input.ConsumeRemainingBytes<std::uint8_t>();
  read_payload(header, std::as_bytes(std::span(payload)));
  return 0;
}
