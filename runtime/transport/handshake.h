// The handshake by which two processes of a run prove themselves, without sockets:
//   dialler -> listener  hello      nonce, address
//   listener -> dialler  challenge  nonce, address, proof that the listener holds the run's key
//   dialler -> listener  proof      proof that the dialler holds the run's key
// The proofs cover the run's name, both ranks, incarnations, addresses and nonces, so a proof cannot be used
// twice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/hmac.h"
#include "runtime/base/payload.h"
#include "runtime/transport/wire.h"

namespace mlk::rt {

// The longest payload that is accepted from a process that has not proved itself.
inline constexpr std::uint32_t handshake_payload_limit = 512;

using Key = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;

// parse_key() reads the key from 64 hexadecimal digits, with white space around them. load_key() reads the
// digits from the file `path`. Both throw Failure{bad_configuration}, whose message never contains the
// digits.
Key parse_key(std::string_view text);
Key load_key(const std::string& path);

Nonce random_nonce();

// How one side introduces itself.
struct Introduction {
  PeerId id;
  std::uint64_t incarnation = 0;
  std::string address;  // host:port, where other processes may dial this side
  Nonce nonce{};
};

enum class Side { listener, dialler };

// The proof that `side` knows the key.
Digest prove(const Key& key, Side side, const std::string& run, const Introduction& dialler,
             const Introduction& listener);

// The payloads of the messages. The id and the incarnation are in the header.
Bytes hello_payload(const Introduction& self);
Bytes challenge_payload(const Introduction& self, const Digest& proof);
Bytes proof_payload(const Digest& proof);

std::optional<Introduction> read_hello(const Header& header, std::span<const std::byte> payload);
struct Challenge {
  Introduction listener;
  Digest proof;
};
std::optional<Challenge> read_challenge(const Header& header, std::span<const std::byte> payload);
std::optional<Digest> read_proof(std::span<const std::byte> payload);

// One side of a handshake. It reads the frames that arrive, and returns the message to send. `key` and `run`
// must outlive this object.
class Handshake {
 public:
  // `wanted` is set on the dialler's side, which accepts only this peer. It is empty on the listener's side.
  Handshake(const Key& key, const std::string& run, Introduction ours, std::optional<PeerId> wanted = {});

  struct Message {
    MessageType type = MessageType::hello;
    Bytes payload;
  };
  struct Turn {
    std::optional<Message> send = {};
    bool done = false;       // both sides have proved themselves: theirs() is verified
    std::string fault = {};  // if not empty, the connection must be closed
  };
  Message hello() const;  // the first message, from the dialler
  Turn on_frame(const Header& header, std::span<const std::byte> payload);
  const Introduction& theirs() const { return theirs_; }

 private:
  Turn on_hello(const Header& header, std::span<const std::byte> payload);
  Turn on_challenge(const Header& header, std::span<const std::byte> payload);
  Turn on_proof(const Header& header, std::span<const std::byte> payload);

  enum class Awaits { hello, challenge, proof, nothing };
  const Key& key_;
  const std::string& run_;
  const Introduction ours_;
  const std::optional<PeerId> wanted_;
  Introduction theirs_;
  Awaits awaits_ = Awaits::hello;
};

}  // namespace mlk::rt
