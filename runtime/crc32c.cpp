// CRC-32C by the SSE 4.2 instruction where there is one, else eight tables.
#include "runtime/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace mlk::rt {
namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // bits reversed

// tables[k][b]: the checksum of byte b followed by k zero bytes, so that eight bytes take one step.
constexpr std::array<std::array<std::uint32_t, 256>, 8> make_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? polynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr auto tables = make_tables();

#if defined(__x86_64__)
[[gnu::target("sse4.2")]] std::uint32_t crc32c_sse42(const unsigned char* data, std::size_t size,
                                                     std::uint32_t crc) {
  std::uint64_t wide = crc;
  for (; size >= 8; size -= 8, data += 8) {
    std::uint64_t word;
    std::memcpy(&word, data, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (; size > 0; --size) crc = _mm_crc32_u8(crc, *data++);
  return crc;
}
#endif

}  // namespace

std::uint32_t crc32c_portable(const void* data, std::size_t size, std::uint32_t previous) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint32_t crc = ~previous;
  for (; size >= 8; size -= 8, bytes += 8) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint32_t byte = bytes[i] ^ (i < 4 ? (crc >> (8 * i)) & 0xff : 0);
      next ^= tables[7 - i][byte];
    }
    crc = next;
  }
  for (; size > 0; --size) crc = (crc >> 8) ^ tables[0][(crc ^ *bytes++) & 0xff];
  return ~crc;
}

std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t previous) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ~crc32c_sse42(static_cast<const unsigned char*>(data), size, ~previous);
#endif
  return crc32c_portable(data, size, previous);
}

}  // namespace mlk::rt
