// The frame of the runtime's protocol: a fixed header of 64 bytes, little-endian, then `length` bytes of
// payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mlk::rt {

inline constexpr std::size_t header_size = 64;
inline constexpr std::uint8_t wire_version = 1;

enum class Role : std::uint8_t { worker = 1, server = 2 };

// The identity of a process within its run. It stays the same over restarts; the incarnation changes.
struct PeerId {
  Role role = Role::worker;
  std::uint32_t rank = 0;  // below 2^24

  auto operator<=>(const PeerId&) const = default;
};

// "worker/3"
std::string to_string(PeerId id);

// Append a new type at the end of its group, and name it in is_known() and in the test of is_known().
enum class MessageType : std::uint8_t {
  // Messages between transports.
  hello = 1,
  challenge,
  proof,
  heartbeat,
  goodbye,  // clock: the exit code
  lane,     // within one host: brings a descriptor of shared memory (shared_lane.h)
  // Messages of parameter servers: ps/machines/protocol.h describes their content.
  join = 16,
  seed_wanted,
  seed,
  seeded,
  ready,
  work,
  wait,
  push,
  accepted,
  pull,
  weights,
  trained,
  reported,
  finish,
  capture,
  captured,
  written,
  cut_off,
  // Messages of allreduce.
  status = 64,
  propose,
  accept,
  refuse,
  begin,
  feed,
  reduce,
  trouble,
  done,
};
bool is_known(MessageType type);

enum class DataType : std::uint8_t { bytes = 0, float32 = 1 };

struct Header {
  MessageType type = MessageType::heartbeat;
  std::uint8_t flags = 0;
  DataType data_type = DataType::bytes;
  PeerId sender = {};
  std::uint32_t key = 0;          // tensor chunk, slice or phase
  std::uint64_t generation = 0;   // of the membership
  std::uint64_t incarnation = 0;  // of the sender: hash_incarnation(MLK_INCARNATION)
  std::uint64_t clock = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;       // bytes of payload
  std::uint32_t sequence = 0;     // counts the frames of a connection
  std::uint32_t payload_crc = 0;  // crc32c; on one host: where the payload is (frame_reader.h)

  bool operator==(const Header&) const = default;
};

enum class WireFault { none, magic, version, checksum, type, role, length, lane };
std::string_view describe(WireFault fault);

// The bytes of the header, with their crc32c at the end.
std::array<std::byte, header_size> encode(const Header& header);

// Does not trust the bytes: checks all fields, and the length against length_limit. Sets `header` only if it
// returns WireFault::none.
WireFault decode(std::span<const std::byte, header_size> bytes, std::uint32_t length_limit, Header& header);

// 64 bits of SHA-256 of the text, never 0.
std::uint64_t hash_incarnation(std::string_view incarnation);

}  // namespace mlk::rt
