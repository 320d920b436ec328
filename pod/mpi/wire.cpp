#include "pod/mpi/wire.h"

#include <algorithm>

namespace mlk::mpi {
namespace {

constexpr std::string_view magic = "mlk-mpi1";
constexpr std::size_t greeting_size = magic.size() + nonce_size;

void append(Bytes& to, std::span<const std::byte> bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

void append_number(Bytes& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::byte>(value >> (8 * i)));
}

std::uint32_t number_at(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i)
    value = value << 8 | std::to_integer<std::uint32_t>(bytes[static_cast<std::size_t>(i)]);
  return value;
}

rt::Digest mac(const rt::Digest& key, std::uint64_t number, std::span<const std::byte> frame) {
  Bytes text;
  text.reserve(8 + frame.size());
  append_number(text, number, 8);
  append(text, frame);
  return rt::hmac_sha256(key, text);
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  rt::Digest left{}, right{};
  std::copy(a.begin(), a.end(), left.begin());
  std::copy(b.begin(), b.end(), right.begin());
  return rt::equal_in_constant_time(left, right);
}

}  // namespace

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes encode(const End& end) {
  Bytes out;
  append_number(out, end.rank, 4);
  out.push_back(static_cast<std::byte>(end.code));
  out.push_back(static_cast<std::byte>(end.told));
  return out;
}

std::optional<End> decode_end(std::span<const std::byte> payload) {
  if (payload.size() != 6 || std::to_integer<int>(payload[5]) > 1) return std::nullopt;
  return End{.rank = number_at(payload),
             .code = std::to_integer<std::uint8_t>(payload[4]),
             .told = payload[5] == std::byte{1}};
}

Bytes encode(const Program& program) {
  Bytes out;
  append_number(out, program.agent, 4);
  const auto add = [&out](const std::string& text) {
    append(out, bytes_of(text));
    out.push_back(std::byte{0});
  };
  add(program.folder);
  for (const std::string& word : program.words) add(word);
  return out;
}

std::optional<Program> decode_program(std::span<const std::byte> payload) {
  if (payload.size() < 4 || payload.back() != std::byte{0}) return std::nullopt;
  Program out{.agent = number_at(payload), .folder = {}, .words = {}};
  std::string_view rest = text_of(payload.subspan(4));
  const auto next = [&rest] {
    const std::string_view text = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    return std::string(text);
  };
  out.folder = next();
  while (!rest.empty()) out.words.push_back(next());
  if (out.words.empty()) return std::nullopt;
  return out;
}

Session::Session(Side side, std::string_view key, const Nonce& nonce)
    : side_(side), key_(bytes_of(key).begin(), bytes_of(key).end()), own_(nonce) {
  if (side_ == Side::client) return;
  put(bytes_of(magic));
  put(own_);
}

rt::Digest Session::proof_of(std::string_view who) const {
  Bytes text(bytes_of(who).begin(), bytes_of(who).end());
  append(text, side_ == Side::server ? own_ : other_);
  append(text, side_ == Side::server ? other_ : own_);
  return rt::hmac_sha256(key_, text);
}

void Session::derive_keys() {
  const rt::Digest to_server = proof_of("to server"), to_client = proof_of("to client");
  sending_ = side_ == Side::client ? to_server : to_client;
  receiving_ = side_ == Side::client ? to_client : to_server;
  stage_ = Stage::ready;
}

// One step of the handshake. False if bytes are missing or wrong.
bool Session::shake_hands() {
  const std::span<const std::byte> in = input();
  const bool server = side_ == Side::server;
  if (stage_ == Stage::greeting) {
    const std::size_t known = std::min(in.size(), magic.size());
    if (text_of(in.first(known)) != magic.substr(0, known)) {
      stage_ = Stage::broken;
      return false;
    }
    if (in.size() < greeting_size + (server ? proof_size : 0)) return false;
    std::copy_n(in.begin() + magic.size(), nonce_size, other_.begin());
    taken_ += greeting_size;
    if (!server) {
      put(bytes_of(magic));
      put(own_);
      put(proof_of("client"));
      stage_ = Stage::proof;
      return true;
    }
  }
  if (input().size() < proof_size) return false;
  if (!same(input().first(proof_size), proof_of(server ? "client" : "server"))) {
    stage_ = Stage::broken;
    return false;
  }
  taken_ += proof_size;
  if (server) put(proof_of("server"));
  derive_keys();
  return true;
}

bool Session::receive(std::span<const std::byte> bytes) {
  if (broken()) return false;
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
  append(in_, bytes);
  while (!ready() && shake_hands()) {
  }
  // Until a peer has proven that it has the key, it may not send more than the handshake.
  if (!ready() && input().size() > greeting_size + proof_size) stage_ = Stage::broken;
  return !broken();
}

std::optional<Frame> Session::next() {
  if (!ready() || input().size() < header_size) return std::nullopt;
  const std::size_t length = number_at(input());
  const auto type = std::to_integer<std::uint8_t>(input()[4]);
  const bool known =
      type >= static_cast<std::uint8_t>(Type::lead) && type <= static_cast<std::uint8_t>(Type::signal);
  if (length > most_payload || !known) {
    stage_ = Stage::broken;
    return std::nullopt;
  }
  if (input().size() < header_size + length + mac_size) return std::nullopt;
  const std::span<const std::byte> frame = input().first(header_size + length);
  const rt::Digest right = mac(receiving_, frames_received_++, frame);
  if (!same(input().subspan(frame.size(), mac_size), std::span(right).first(mac_size))) {
    stage_ = Stage::broken;
    return std::nullopt;
  }
  Frame out{static_cast<Type>(type), Bytes(frame.begin() + header_size, frame.end())};
  taken_ += frame.size() + mac_size;
  return out;
}

void Session::send(Type type, std::span<const std::byte> payload) {
  if (!ready()) return;
  Bytes frame;
  frame.reserve(header_size + payload.size());
  append_number(frame, payload.size(), 4);
  frame.push_back(static_cast<std::byte>(type));
  append(frame, payload);
  const rt::Digest digest = mac(sending_, frames_sent_++, frame);
  put(frame);
  put(std::span(digest).first(mac_size));
}

void Session::sent(std::size_t bytes) {
  sent_ += bytes;
  if (sent_ < out_.size()) return;
  out_.clear();
  sent_ = 0;
}

}  // namespace mlk::mpi
