// The messages by which two processes introduce themselves before they trust each other, encoded and decoded.
#include "runtime/transport/handshake.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/transport/handshake");

using namespace mlk::rt;

namespace {

Header header_of(MessageType type) {
  Header header;
  header.type = type;
  header.sender = {Role::worker, 3};
  header.incarnation = 77;
  return header;
}

Introduction introduction(const std::string& address) {
  Introduction self{{Role::worker, 3}, 77, address, {}};
  self.nonce.fill(std::byte{5});
  return self;
}

Digest some_proof() {
  Digest proof{};
  proof.fill(std::byte{9});
  return proof;
}

// Both sides of a handshake. challenge() and proof() execute it up to the message with this name.
struct TwoSides {
  const Key listeners_key, diallers_key;
  const std::string run = "run";
  const PeerId three{Role::worker, 3}, four{Role::worker, 4};
  Handshake listener, dialler;

  TwoSides(char listener_digit, char dialler_digit, PeerId wanted)
      : listeners_key(parse_key(std::string(64, listener_digit))),
        diallers_key(parse_key(std::string(64, dialler_digit))),
        listener(listeners_key, run, introduction("three:3")),
        dialler(diallers_key, run, {four, 88, "four:4", {}}, wanted) {}

  static Header header_from(PeerId id, std::uint64_t incarnation, MessageType type) {
    Header header;
    header.type = type;
    header.sender = id;
    header.incarnation = incarnation;
    return header;
  }
  Handshake::Turn challenge() {
    const auto hello = dialler.hello();
    return listener.on_frame(header_from(four, 88, hello.type), hello.payload);
  }
  Handshake::Turn proof() {
    const auto turn = challenge();
    return dialler.on_frame(header_from(three, 77, turn.send->type), turn.send->payload);
  }
};

}  // namespace

TEST_CASE("two sides with one key prove themselves to each other in three messages") {
  TwoSides sides('a', 'a', {Role::worker, 3});
  const auto proof = sides.proof();
  CHECK(proof.done);
  CHECK(proof.fault.empty());
  CHECK(sides.dialler.theirs().id == sides.three);
  CHECK(sides.dialler.theirs().address == "three:3");
  const auto last =
      sides.listener.on_frame(TwoSides::header_from(sides.four, 88, proof.send->type), proof.send->payload);
  CHECK(last.done);
  CHECK_FALSE(last.send);
  CHECK(sides.listener.theirs().id == sides.four);
  CHECK(sides.listener.theirs().incarnation == 88);
}

TEST_CASE("a side is refused if it has another key, or if its rank is not the wanted one") {
  TwoSides strangers('a', 'b', {Role::worker, 3});
  const auto unknown = strangers.proof();
  CHECK(unknown.fault == "it does not know the key of the run");
  CHECK_FALSE(unknown.done);
  CHECK_FALSE(unknown.send);
  TwoSides other_rank('a', 'a', {Role::worker, 7});
  CHECK(other_rank.proof().fault == "it is worker/3, not worker/7");
  TwoSides forged('a', 'a', {Role::worker, 3});
  forged.challenge();
  const auto refused =
      forged.listener.on_frame(TwoSides::header_from(forged.four, 88, MessageType::proof), some_proof());
  CHECK(refused.fault == "it does not know the key of the run");
  CHECK_FALSE(refused.done);
}

TEST_CASE("a side accepts no message out of order, and no message after a fault") {
  TwoSides sides('a', 'a', {Role::worker, 3});
  const auto early =
      sides.listener.on_frame(TwoSides::header_from(sides.four, 88, MessageType::proof), some_proof());
  CHECK(early.fault == "not a hello");
  CHECK_FALSE(sides.challenge().fault.empty());
}

TEST_CASE("hello, challenge and proof arrive as they were sent, with the identity in the header") {
  const auto hello = read_hello(header_of(MessageType::hello), hello_payload(introduction("host:7")));
  REQUIRE(hello);
  CHECK(hello->id == PeerId{Role::worker, 3});
  CHECK(hello->incarnation == 77);
  CHECK(hello->address == "host:7");
  CHECK(hello->nonce == introduction("").nonce);
  const auto challenge = read_challenge(header_of(MessageType::challenge),
                                        challenge_payload(introduction("host:7"), some_proof()));
  REQUIRE(challenge);
  CHECK(challenge->listener.id == PeerId{Role::worker, 3});
  CHECK(challenge->listener.incarnation == 77);
  CHECK(challenge->listener.address == "host:7");
  CHECK(challenge->listener.nonce == introduction("").nonce);
  CHECK(challenge->proof == some_proof());
  CHECK(read_proof(proof_payload(some_proof())) == some_proof());
}

TEST_CASE("a handshake message is refused if it is cut off, too long or of another type") {
  const Bytes hello = hello_payload(introduction("host:7")),
              challenge = challenge_payload(introduction("host:7"), some_proof()),
              proof = proof_payload(some_proof());
  for (const int change : {-1, 1}) {
    const auto changed = [change](Bytes bytes) {
      bytes.resize(bytes.size() + static_cast<std::size_t>(change));
      return bytes;
    };
    CHECK_FALSE(read_hello(header_of(MessageType::hello), changed(hello)));
    CHECK_FALSE(read_challenge(header_of(MessageType::challenge), changed(challenge)));
    CHECK_FALSE(read_proof(changed(proof)));
  }
  CHECK_FALSE(read_hello(header_of(MessageType::challenge), hello));
  CHECK_FALSE(read_challenge(header_of(MessageType::hello), challenge));
}

TEST_CASE("the address in a hello or in a challenge has at most 300 bytes") {
  const std::string longest(300, 'a'), longer(301, 'a');
  CHECK(read_hello(header_of(MessageType::hello), hello_payload(introduction(longest))));
  CHECK_FALSE(read_hello(header_of(MessageType::hello), hello_payload(introduction(longer))));
  CHECK(read_challenge(header_of(MessageType::challenge),
                       challenge_payload(introduction(longest), some_proof())));
  CHECK_FALSE(read_challenge(header_of(MessageType::challenge),
                             challenge_payload(introduction(longer), some_proof())));
}

TEST_CASE("a proof changes with the key, the side, the run and each introduction") {
  const Key key = parse_key(std::string(64, 'a'));
  const Introduction dialler = introduction("one:1"), listener = introduction("two:2");
  const Digest proof = prove(key, Side::dialler, "run", dialler, listener);
  CHECK(prove(key, Side::dialler, "run", dialler, listener) == proof);
  CHECK(prove(parse_key(std::string(64, 'b')), Side::dialler, "run", dialler, listener) != proof);
  CHECK(prove(key, Side::listener, "run", dialler, listener) != proof);
  CHECK(prove(key, Side::dialler, "other", dialler, listener) != proof);
  CHECK(prove(key, Side::dialler, "run", listener, dialler) != proof);
  for (int changed = 0; changed < 4; ++changed) {
    for (const bool of_dialler : {true, false}) {
      Introduction one = dialler, other = listener;
      Introduction& which = of_dialler ? one : other;
      if (changed == 0) which.id.rank = 4;
      if (changed == 1) which.incarnation = 78;
      if (changed == 2) which.address = "three:3";
      if (changed == 3) which.nonce.fill(std::byte{6});
      CHECK(prove(key, Side::dialler, "run", one, other) != proof);
    }
  }
}

TEST_CASE("a key has 64 hexadecimal digits, and white space may stand around them") {
  CHECK(parse_key(std::string(64, 'a'))[0] == std::byte{0xaa});
  CHECK(parse_key(" \n0F" + std::string(62, '0') + "\n")[0] == std::byte{0x0f});
  for (const std::string& bad :
       {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(63, 'a') + "g"}) {
    try {
      parse_key(bad);
      FAIL("it is taken");
    } catch (const std::exception& error) {
      if (!bad.empty()) CHECK(std::string(error.what()).find(bad) == std::string::npos);
    }
  }
}
