// Layout of the header:
// clang-format off
//    0 magic u32 | 4 version u8 | 5 type u8 | 6 flags u8 | 7 data type u8 | 8 rank, role << 24 u32 | 12 key u32
//   16 generation u64 | 24 incarnation u64 | 32 clock u64 | 40 offset u64
//   48 length u32 | 52 sequence u32 | 56 crc of the payload u32 | 60 crc of bytes 0..59 u32
// clang-format on
#include "runtime/transport/wire.h"

#include <cstring>

#include "runtime/base/crc32c.h"
#include "runtime/base/hmac.h"
#include "runtime/base/payload.h"

namespace mlk::rt {
namespace {

constexpr std::uint32_t magic = 0x314b4c4d;  // "MLK1"
constexpr std::uint32_t rank_mask = (1u << 24) - 1;

// Numbers lie in memory as on the wire, since payload.h requires a little-endian machine.
template <typename T>
void put(std::array<std::byte, header_size>& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <typename T>
T take(std::span<const std::byte, header_size> bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

std::string to_string(PeerId id) {
  return (id.role == Role::worker ? "worker/" : "server/") + std::to_string(id.rank);
}

bool is_known(MessageType type) {
  const auto between = [type](MessageType first, MessageType last) { return type >= first && type <= last; };
  return between(MessageType::hello, MessageType::lane) || between(MessageType::join, MessageType::cut_off) ||
         between(MessageType::status, MessageType::done);
}

std::string_view describe(WireFault fault) {
  switch (fault) {
    case WireFault::none:
      return "no fault";
    case WireFault::magic:
      return "not our protocol";
    case WireFault::version:
      return "another version of the protocol";
    case WireFault::checksum:
      return "wrong checksum";
    case WireFault::type:
      return "unknown type of message";
    case WireFault::role:
      return "unknown role";
    case WireFault::length:
      return "length beyond the limit";
    case WireFault::lane:
      return "shared memory that is not as it should be";
  }
  return "";
}

std::array<std::byte, header_size> encode(const Header& header) {
  std::array<std::byte, header_size> bytes = {};
  put(bytes, 0, magic);
  put(bytes, 4, wire_version);
  put(bytes, 5, static_cast<std::uint8_t>(header.type));
  put(bytes, 6, header.flags);
  put(bytes, 7, static_cast<std::uint8_t>(header.data_type));
  put(bytes, 8, (header.sender.rank & rank_mask) | static_cast<std::uint32_t>(header.sender.role) << 24);
  put(bytes, 12, header.key);
  put(bytes, 16, header.generation);
  put(bytes, 24, header.incarnation);
  put(bytes, 32, header.clock);
  put(bytes, 40, header.offset);
  put(bytes, 48, header.length);
  put(bytes, 52, header.sequence);
  put(bytes, 56, header.payload_crc);
  put(bytes, 60, crc32c(bytes.data(), 60));
  return bytes;
}

WireFault decode(std::span<const std::byte, header_size> bytes, std::uint32_t length_limit, Header& header) {
  if (take<std::uint32_t>(bytes, 0) != magic) return WireFault::magic;
  if (take<std::uint8_t>(bytes, 4) != wire_version) return WireFault::version;
  if (take<std::uint32_t>(bytes, 60) != crc32c(bytes.data(), 60)) return WireFault::checksum;
  Header h;
  h.type = static_cast<MessageType>(take<std::uint8_t>(bytes, 5));
  h.flags = take<std::uint8_t>(bytes, 6);
  h.data_type = static_cast<DataType>(take<std::uint8_t>(bytes, 7));
  const auto sender = take<std::uint32_t>(bytes, 8);
  h.sender = {static_cast<Role>(sender >> 24), sender & rank_mask};
  h.key = take<std::uint32_t>(bytes, 12);
  h.generation = take<std::uint64_t>(bytes, 16);
  h.incarnation = take<std::uint64_t>(bytes, 24);
  h.clock = take<std::uint64_t>(bytes, 32);
  h.offset = take<std::uint64_t>(bytes, 40);
  h.length = take<std::uint32_t>(bytes, 48);
  h.sequence = take<std::uint32_t>(bytes, 52);
  h.payload_crc = take<std::uint32_t>(bytes, 56);
  if (!is_known(h.type) || h.data_type > DataType::float32) return WireFault::type;
  if (h.sender.role != Role::worker && h.sender.role != Role::server) return WireFault::role;
  if (h.length > length_limit || (h.data_type == DataType::float32 && h.length % 4 != 0))
    return WireFault::length;
  header = h;
  return WireFault::none;
}

std::uint64_t hash_incarnation(std::string_view incarnation) {
  const Digest digest = sha256(std::as_bytes(std::span(incarnation.data(), incarnation.size())));
  const auto hash = PayloadReader(digest).get<std::uint64_t>();
  return hash == 0 ? 1 : hash;
}

}  // namespace mlk::rt
