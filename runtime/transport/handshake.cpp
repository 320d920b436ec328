// The messages of the handshake, their order, and the bytes that the proofs cover.
#include "runtime/transport/handshake.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sys/random.h>
#include <utility>

#include "runtime/base/exit_code.h"

namespace mlk::rt {
namespace {

constexpr std::size_t longest_address = 300;

template <std::size_t size>
std::array<std::byte, size> read_array(PayloadReader& reader) {
  std::array<std::byte, size> out{};
  const auto bytes = reader.raw(size);
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return out;
}

void describe_side(PayloadWriter& text, const Introduction& side) {
  text.put(static_cast<std::uint8_t>(side.id.role)).put(side.id.rank).put(side.incarnation);
  text.text(side.address).raw(side.nonce);
}

}  // namespace

Key parse_key(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  Key key{};
  bool good = text.size() == 2 * key.size();
  for (std::size_t i = 0; good && i < key.size(); ++i) {
    const char* const end = text.data() + 2 * (i + 1);
    unsigned value = 0;
    good = std::from_chars(end - 2, end, value, 16).ptr == end;
    key[i] = static_cast<std::byte>(value);
  }
  if (!good) throw Failure(ExitCode::bad_configuration, "the key of the run is not 64 hexadecimal digits");
  return key;
}

Key load_key(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char text[256];
  file.read(text, sizeof text);
  if (file.gcount() == 0)
    throw Failure(ExitCode::bad_configuration, "cannot read the key of the run: " + path);
  return parse_key({text, static_cast<std::size_t>(file.gcount())});
}

Nonce random_nonce() {
  Nonce nonce;
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    throw Failure(ExitCode::internal_error, "the system gives no random bytes");
  }
  return nonce;
}

Digest prove(const Key& key, Side side, const std::string& run, const Introduction& dialler,
             const Introduction& listener) {
  PayloadWriter text;
  text.text(side == Side::listener ? "mlk listener 1" : "mlk dialler 1").text(run);
  describe_side(text, dialler);
  describe_side(text, listener);
  return hmac_sha256(key, text.bytes());
}

Bytes hello_payload(const Introduction& self) {
  return PayloadWriter().raw(self.nonce).text(self.address).bytes();
}

Bytes challenge_payload(const Introduction& self, const Digest& proof) {
  return PayloadWriter().raw(self.nonce).text(self.address).raw(proof).bytes();
}

Bytes proof_payload(const Digest& proof) { return {proof.begin(), proof.end()}; }

std::optional<Introduction> read_hello(const Header& header, std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  Introduction dialler{header.sender, header.incarnation, {}, read_array<32>(reader)};
  dialler.address = reader.text();
  if (header.type != MessageType::hello || !reader.complete() || dialler.address.size() > longest_address)
    return {};
  return dialler;
}

std::optional<Challenge> read_challenge(const Header& header, std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  Challenge challenge{{header.sender, header.incarnation, {}, read_array<32>(reader)}, {}};
  challenge.listener.address = reader.text();
  challenge.proof = read_array<32>(reader);
  if (header.type != MessageType::challenge || !reader.complete()) return {};
  if (challenge.listener.address.size() > longest_address) return {};
  return challenge;
}

std::optional<Digest> read_proof(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  const Digest proof = read_array<32>(reader);
  if (!reader.complete()) return {};
  return proof;
}

Handshake::Handshake(const Key& key, const std::string& run, Introduction ours, std::optional<PeerId> wanted)
    : key_(key),
      run_(run),
      ours_(std::move(ours)),
      wanted_(wanted),
      awaits_(wanted ? Awaits::challenge : Awaits::hello) {}

Handshake::Message Handshake::hello() const { return {MessageType::hello, hello_payload(ours_)}; }

Handshake::Turn Handshake::on_frame(const Header& header, std::span<const std::byte> payload) {
  switch (std::exchange(awaits_, Awaits::nothing)) {
    case Awaits::hello:
      return on_hello(header, payload);
    case Awaits::challenge:
      return on_challenge(header, payload);
    case Awaits::proof:
      return on_proof(header, payload);
    case Awaits::nothing:
      break;
  }
  return {.fault = "a message after the handshake has failed"};
}

Handshake::Turn Handshake::on_hello(const Header& header, std::span<const std::byte> payload) {
  const auto dialler = read_hello(header, payload);
  if (!dialler || dialler->id == ours_.id) return {.fault = "not a hello"};
  theirs_ = *dialler;
  awaits_ = Awaits::proof;
  const Digest own = prove(key_, Side::listener, run_, theirs_, ours_);
  return {.send = Message{MessageType::challenge, challenge_payload(ours_, own)}};
}

Handshake::Turn Handshake::on_challenge(const Header& header, std::span<const std::byte> payload) {
  const auto challenge = read_challenge(header, payload);
  if (!challenge) return {.fault = "not a challenge"};
  theirs_ = challenge->listener;
  if (!equal_in_constant_time(prove(key_, Side::listener, run_, ours_, theirs_), challenge->proof))
    return {.fault = "it does not know the key of the run"};
  if (theirs_.id != *wanted_)
    return {.fault = "it is " + to_string(theirs_.id) + ", not " + to_string(*wanted_)};
  const Digest own = prove(key_, Side::dialler, run_, ours_, theirs_);
  return {.send = Message{MessageType::proof, proof_payload(own)}, .done = true};
}

Handshake::Turn Handshake::on_proof(const Header& header, std::span<const std::byte> payload) {
  const auto proof = read_proof(payload);
  const Digest expected = prove(key_, Side::dialler, run_, theirs_, ours_);
  if (header.type != MessageType::proof || !proof || !equal_in_constant_time(expected, *proof))
    return {.fault = "it does not know the key of the run"};
  return {.done = true};
}

}  // namespace mlk::rt
