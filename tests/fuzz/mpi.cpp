// Bytes that a peer may send to mlk-mpi, with the key or without it, before and after the handshake.
#include <cstdint>
#include <fuzzer/FuzzedDataProvider.h>

#include "pod/mpi/wire.h"
#include "tests/fuzz/demand.h"

using namespace mlk::mpi;
using mlk::fuzz::demand;

namespace {

constexpr char key[] = "0123456789abcdef0123456789abcdef";

void pass(Session& from, Session& to) {
  const Bytes bytes(from.output().begin(), from.output().end());
  from.sent(bytes.size());
  (void)to.receive(bytes);
}

void read_payload(std::span<const std::byte> payload) {
  if (const auto end = decode_end(payload)) demand(decode_end(encode(*end)) == *end);
  if (const auto program = decode_program(payload)) demand(decode_program(encode(*program)) == *program);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  Session server(Session::Side::server, key, Nonce{});
  Session client(Session::Side::client, key, Nonce{});
  const bool has_key = input.ConsumeBool();
  if (has_key) {
    pass(server, client);
    pass(client, server);
    pass(server, client);
    demand(server.ready() && client.ready());
    const std::string text = input.ConsumeRandomLengthString();
    read_payload(bytes_of(text));
    client.send(Type::run, bytes_of(text));
    pass(client, server);
    demand(text_of(server.next()->payload) == text);
  }
  // The server never accepts a frame that was made without the key.
  while (input.remaining_bytes() > 0 && server.receive(bytes_of(input.ConsumeRandomLengthString())))
    demand(!server.next());
  demand(has_key || !server.ready());
  return 0;
}
