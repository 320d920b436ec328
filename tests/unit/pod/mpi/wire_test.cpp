// Checks the handshake and the frames of mlk-mpi between two sessions, without sockets.
#include "pod/mpi/wire.h"

#include <algorithm>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("pod/mpi/wire");

namespace mlk::mpi {
namespace {

using Side = Session::Side;

constexpr char key[] = "0123456789abcdef0123456789abcdef";

Nonce nonce_of(int value) {
  Nonce nonce;
  nonce.fill(static_cast<std::byte>(value));
  return nonce;
}

Bytes taken_from(Session& session) {
  Bytes bytes(session.output().begin(), session.output().end());
  session.sent(bytes.size());
  return bytes;
}

// Transfers all output of both sessions, `piece` bytes at a time.
void carry(Session& a, Session& b, std::size_t piece = 1 << 20) {
  while (!a.output().empty() || !b.output().empty()) {
    for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
      const Bytes bytes = taken_from(*from);
      for (std::size_t at = 0; at < bytes.size(); at += piece)
        (void)to->receive(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    }
  }
}

struct Pair {
  Session client{Side::client, key, nonce_of(1)}, server{Side::server, key, nonce_of(2)};

  Pair() { carry(client, server); }
};

TEST_CASE("two sessions with the same key can send each other frames, even if bytes arrive in small pieces") {
  for (const std::size_t piece : {1u, 3u, 100000u}) {
    Session client(Side::client, key, nonce_of(1)), server(Side::server, key, nonce_of(2));
    carry(client, server, piece);
    REQUIRE(client.ready());
    REQUIRE(server.ready());
    client.send(Type::run, bytes_of("true"));
    client.send(Type::run);
    carry(client, server, piece);
    const auto first = server.next();
    REQUIRE(first);
    CHECK(first->type == Type::run);
    CHECK(text_of(first->payload) == "true");
    CHECK(server.next()->payload.empty());
    CHECK_FALSE(server.next());
    server.send(Type::ended, encode(End{.rank = 3, .code = 7, .told = true}));
    carry(client, server, piece);
    CHECK(decode_end(client.next()->payload) == End{.rank = 3, .code = 7, .told = true});
  }
}

TEST_CASE("each side refuses a peer with another key before it accepts a frame") {
  Session client(Side::client, "another key, as long as the right", nonce_of(1));
  Session server(Side::server, key, nonce_of(2));
  carry(client, server);
  CHECK(server.broken());
  CHECK_FALSE(client.ready());

  // A server without the key sends arbitrary bytes as its proof.
  Session careful(Side::client, key, nonce_of(1));
  Session impostor(Side::server, "another key, as long as the right", nonce_of(2));
  (void)careful.receive(taken_from(impostor));
  (void)taken_from(careful);
  CHECK_FALSE(careful.receive(Bytes(proof_size)));
  CHECK(careful.broken());
}

TEST_CASE("a server refuses a handshake that is replayed from another connection") {
  Session client(Side::client, key, nonce_of(1)), server(Side::server, key, nonce_of(2));
  (void)client.receive(taken_from(server));
  const Bytes said = taken_from(client);
  CHECK(server.receive(said));
  CHECK(server.ready());
  Session next(Side::server, key, nonce_of(3));
  CHECK_FALSE(next.receive(said));
}

TEST_CASE("a server refuses a client that sends the proof of a server as its own proof") {
  Session client(Side::client, key, nonce_of(1)), server(Side::server, key, nonce_of(2));
  Bytes greeting = taken_from(server);
  (void)client.receive(greeting);
  (void)server.receive(taken_from(client));
  const Bytes proof = taken_from(server);
  REQUIRE(proof.size() == proof_size);
  Session victim(Side::server, key, nonce_of(2));
  std::copy_n(nonce_of(1).begin(), nonce_size, greeting.end() - nonce_size);
  greeting.insert(greeting.end(), proof.begin(), proof.end());
  CHECK_FALSE(victim.receive(greeting));
}

TEST_CASE("a changed, repeated, missing or unknown frame breaks the connection") {
  const auto survives = [](auto change) {
    Pair pair;
    pair.client.send(Type::run, bytes_of("echo one"));
    Bytes first = taken_from(pair.client);
    pair.client.send(Type::run, bytes_of("echo two"));
    Bytes second = taken_from(pair.client);
    change(first, second);
    (void)pair.server.receive(first);
    (void)pair.server.receive(second);
    int frames = 0;
    while (pair.server.next()) ++frames;
    return frames == 2 && !pair.server.broken();
  };
  CHECK(survives([](Bytes&, Bytes&) {}));
  CHECK_FALSE(survives([](Bytes& first, Bytes&) { first[header_size] ^= std::byte{1}; }));
  CHECK_FALSE(survives([](Bytes& first, Bytes&) { first.back() ^= std::byte{1}; }));
  CHECK_FALSE(survives([](Bytes& first, Bytes&) { first[4] = static_cast<std::byte>(Type::lead); }));
  CHECK_FALSE(survives([](Bytes& first, Bytes&) { first[4] = std::byte{99}; }));
  CHECK_FALSE(survives([](Bytes& first, Bytes&) { first[3] = std::byte{1}; }));  // 16 MiB
  CHECK_FALSE(survives([](Bytes& first, Bytes& second) { second = first; }));
  CHECK_FALSE(survives([](Bytes& first, Bytes& second) { std::swap(first, second); }));
}

TEST_CASE("a server refuses wrong first bytes, and too many bytes during the handshake") {
  Session server(Side::server, key, nonce_of(2));
  CHECK_FALSE(server.receive(bytes_of("GET / HTTP/1.1\r\n")));
  Session patient(Side::server, key, nonce_of(2));
  CHECK(patient.receive(bytes_of("mlk-mpi1")));
  CHECK_FALSE(patient.receive(Bytes(100000)));
}

TEST_CASE("decode_program() restores an encoded program, and the decoders refuse broken payloads") {
  const Program program{.agent = 17, .folder = "/mlk/code", .words = {"./hello", "", "two words"}};
  CHECK(decode_program(encode(program)) == program);
  CHECK_FALSE(decode_program({}));
  CHECK_FALSE(decode_program(bytes_of("123")));
  CHECK_FALSE(decode_program(bytes_of("1234/folder")));
  const Bytes whole = encode(program);
  CHECK_FALSE(decode_program(std::span(whole).first(14)));
  CHECK_FALSE(decode_end({}));
  CHECK_FALSE(decode_end(bytes_of("123456")));
}

}  // namespace
}  // namespace mlk::mpi
