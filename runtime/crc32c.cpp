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
// The instruction gives a result every cycle, but each one only after three: three streams side by side keep
// it busy. Their checksums are joined by what `stride` zero bytes behind the first ones do to them, which is
// linear (Mark Adler, https://stackoverflow.com/a/17646775).
constexpr std::size_t stride = 1024;

using Matrix = std::array<std::uint32_t, 32>;  // over GF(2): column i is what bit i becomes

constexpr std::uint32_t times(const Matrix& matrix, std::uint32_t vector) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; vector != 0; vector >>= 1, ++i) sum ^= vector & 1 ? matrix[i] : 0;
  return sum;
}

// join_tables[k][b]: what byte k of a checksum, of value b, becomes behind `stride` zero bytes.
constexpr std::array<std::array<std::uint32_t, 256>, 4> make_join_tables() {
  Matrix shift{};  // by one zero bit
  shift[0] = polynomial;
  for (std::size_t i = 1; i < 32; ++i) shift[i] = 1u << (i - 1);
  for (std::size_t bits = 1; bits < 8 * stride; bits *= 2) {
    Matrix twice{};
    for (std::size_t i = 0; i < 32; ++i) twice[i] = times(shift, shift[i]);
    shift = twice;
  }
  std::array<std::array<std::uint32_t, 256>, 4> join_tables{};
  for (std::size_t k = 0; k < 4; ++k) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) join_tables[k][byte] = times(shift, byte << (8 * k));
  }
  return join_tables;
}

constexpr auto join_tables = make_join_tables();

std::uint32_t behind_stride(std::uint64_t crc) {
  return join_tables[0][crc & 0xff] ^ join_tables[1][crc >> 8 & 0xff] ^ join_tables[2][crc >> 16 & 0xff] ^
         join_tables[3][crc >> 24 & 0xff];
}

std::uint64_t word_at(const unsigned char* data) {
  std::uint64_t word;
  std::memcpy(&word, data, sizeof word);
  return word;
}

[[gnu::target("sse4.2")]] std::uint32_t crc32c_sse42(const unsigned char* data, std::size_t size,
                                                     std::uint32_t crc) {
  std::uint64_t first = crc;
  for (; size >= 3 * stride; size -= 3 * stride, data += 3 * stride) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < stride; i += 8) {
      first = _mm_crc32_u64(first, word_at(data + i));
      second = _mm_crc32_u64(second, word_at(data + stride + i));
      third = _mm_crc32_u64(third, word_at(data + 2 * stride + i));
    }
    first = behind_stride(behind_stride(first) ^ second) ^ third;
  }
  for (; size >= 8; size -= 8, data += 8) first = _mm_crc32_u64(first, word_at(data));
  crc = static_cast<std::uint32_t>(first);
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
