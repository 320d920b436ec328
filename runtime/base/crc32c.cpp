// CRC-32C by carry-less multiplication, by the SSE 4.2 instruction, or by eight tables.
#include "runtime/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
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
// The instruction can start in every cycle, but takes three cycles, so three parallel streams keep it busy.
// Their checksums are joined by a linear function, which changes a checksum as `stride` further zero bytes
// would (Mark Adler, https://stackoverflow.com/a/17646775).
constexpr std::size_t stride = 1024;

using Matrix = std::array<std::uint32_t, 32>;  // over GF(2): column i is the result for bit i alone

constexpr std::uint32_t times(const Matrix& matrix, std::uint32_t vector) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; vector != 0; vector >>= 1, ++i) sum ^= vector & 1 ? matrix[i] : 0;
  return sum;
}

// join_tables[k][b]: the result for a checksum whose byte k is b, and whose other bytes are 0, when `stride`
// zero bytes follow.
constexpr std::array<std::array<std::uint32_t, 256>, 4> make_join_tables() {
  Matrix shift{};  // the effect of one further zero bit
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

[[gnu::target("sse4.2")]] std::uint32_t by_words(const unsigned char* data, std::size_t size,
                                                 std::uint64_t crc) {
  for (; size >= 8; size -= 8, data += 8) crc = _mm_crc32_u64(crc, word_at(data));
  auto rest = static_cast<std::uint32_t>(crc);
  for (; size > 0; --size) rest = _mm_crc32_u8(rest, *data++);
  return rest;
}

[[gnu::target("sse4.2")]] std::uint32_t crc32c_sse42(const void* bytes, std::size_t size,
                                                     std::uint32_t previous) {
  const auto* data = static_cast<const unsigned char*>(bytes);
  std::uint64_t first = ~previous;
  for (; size >= 3 * stride; size -= 3 * stride, data += 3 * stride) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < stride; i += 8) {
      first = _mm_crc32_u64(first, word_at(data + i));
      second = _mm_crc32_u64(second, word_at(data + stride + i));
      third = _mm_crc32_u64(third, word_at(data + 2 * stride + i));
    }
    first = behind_stride(behind_stride(first) ^ second) ^ third;
  }
  return ~by_words(data, size, first);
}

// x to the power of n, modulo the polynomial, bits reversed.
constexpr std::uint32_t power(unsigned n) {
  std::uint32_t value = 1u << 31;
  for (; n > 0; --n) value = (value >> 1) ^ (value & 1 ? polynomial : 0);
  return value;
}

// Folds a block into the block `distance` bytes further on. Modulo the polynomial, sixteen bytes equal the
// sum of two products: each half multiplied by its constant (V. Gopal et al., Fast CRC Computation for
// Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009). A constant has to be x to the power of the
// distance, in bits, from the end of the half to the end of the later block. The exponents below are smaller
// by 33: by 32, because a constant is in the lower half of 64 bits, and by 1, because a product of
// bit-reversed numbers is one bit short.
template <unsigned distance>
constexpr long long low_half = power(8 * distance + 31);
template <unsigned distance>
constexpr long long high_half = power(8 * distance - 33);

template <unsigned distance>
[[gnu::target("avx2")]] __m256i fold_constants() {
  return _mm256_set_epi64x(high_half<distance>, low_half<distance>, high_half<distance>, low_half<distance>);
}

template <unsigned distance>
[[gnu::target("avx512f")]] __m512i wide_fold_constants() {
  constexpr long long low = low_half<distance>, high = high_half<distance>;
  return _mm512_set_epi64(high, low, high, low, high, low, high, low);
}

[[gnu::target("avx2,vpclmulqdq,pclmul")]] __m256i fold(__m256i block, __m256i constants, __m256i into) {
  return _mm256_xor_si256(into, _mm256_xor_si256(_mm256_clmulepi64_epi128(block, constants, 0x00),
                                                 _mm256_clmulepi64_epi128(block, constants, 0x11)));
}

[[gnu::target("avx512f,vpclmulqdq")]] __m512i fold(__m512i block, __m512i constants, __m512i into) {
  constexpr int exclusive_or_of_three = 0x96;
  return _mm512_ternarylogic_epi64(into, _mm512_clmulepi64_epi128(block, constants, 0x00),
                                   _mm512_clmulepi64_epi128(block, constants, 0x11), exclusive_or_of_three);
}

[[gnu::target("avx2")]] __m256i block_at(const unsigned char* data) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
}

[[gnu::target("avx512f")]] __m512i wide_block_at(const unsigned char* data) {
  return _mm512_loadu_si512(data);
}

// The checksum of a block into which all earlier blocks were folded, and of the `size` bytes after the block.
[[gnu::target("avx2,vpclmulqdq,pclmul,sse4.2")]] std::uint32_t end_of_fold(__m256i block,
                                                                           const unsigned char* data,
                                                                           std::size_t size) {
  // The last step folds the lower half into the upper half, which then represents the whole block.
  const __m256i swapped = _mm256_permute2x128_si256(block, block, 0x01);
  const __m128i all = _mm256_castsi256_si128(fold(block, fold_constants<16>(), swapped));
  std::uint64_t crc = _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_extract_epi64(all, 0)));
  crc = _mm_crc32_u64(crc, static_cast<std::uint64_t>(_mm_extract_epi64(all, 1)));
  return ~by_words(data, size, crc);
}

[[gnu::target("avx2,vpclmulqdq,pclmul,sse4.2")]] std::uint32_t crc32c_vpclmul(const void* bytes,
                                                                              std::size_t size,
                                                                              std::uint32_t previous) {
  const auto* data = static_cast<const unsigned char*>(bytes);
  if (size < 256) return ~by_words(data, size, ~previous);
  __m256i first = _mm256_xor_si256(block_at(data), _mm256_set_epi64x(0, 0, 0, ~previous));
  __m256i second = block_at(data + 32), third = block_at(data + 64), fourth = block_at(data + 96);
  const __m256i by_four = fold_constants<128>(), by_one = fold_constants<32>();
  for (data += 128, size -= 128; size >= 128; data += 128, size -= 128) {
    first = fold(first, by_four, block_at(data));
    second = fold(second, by_four, block_at(data + 32));
    third = fold(third, by_four, block_at(data + 64));
    fourth = fold(fourth, by_four, block_at(data + 96));
  }
  return end_of_fold(fold(fold(fold(first, by_one, second), by_one, third), by_one, fourth), data, size);
}

// Does the same as crc32c_vpclmul with blocks twice as long, which takes half the time.
[[gnu::target("avx512f,avx2,vpclmulqdq,pclmul,sse4.2")]] std::uint32_t crc32c_vpclmul_wide(
    const void* bytes, std::size_t size, std::uint32_t previous) {
  if (size < 512) return crc32c_vpclmul(bytes, size, previous);
  const auto* data = static_cast<const unsigned char*>(bytes);
  __m512i first = _mm512_xor_si512(wide_block_at(data), _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, ~previous));
  __m512i second = wide_block_at(data + 64), third = wide_block_at(data + 128);
  __m512i fourth = wide_block_at(data + 192);
  const __m512i by_four = wide_fold_constants<256>(), by_one = wide_fold_constants<64>();
  for (data += 256, size -= 256; size >= 256; data += 256, size -= 256) {
    first = fold(first, by_four, wide_block_at(data));
    second = fold(second, by_four, wide_block_at(data + 64));
    third = fold(third, by_four, wide_block_at(data + 128));
    fourth = fold(fourth, by_four, wide_block_at(data + 192));
  }
  fourth = fold(fold(fold(first, by_one, second), by_one, third), by_one, fourth);
  // Uses the masked form, although all elements are needed, because GCC 12 warns about the other forms (its
  // bug 105593).
  const __m256i lower = _mm512_maskz_extracti64x4_epi64(0xff, fourth, 0);
  const __m256i upper = _mm512_maskz_extracti64x4_epi64(0xff, fourth, 1);
  return end_of_fold(fold(lower, fold_constants<32>(), upper), data, size);
}
#endif

std::uint32_t crc32c_by_table(const void* data, std::size_t size, std::uint32_t previous) {
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

}  // namespace

std::span<const Crc32c> crc32c_ways() {
#if defined(__x86_64__)
  static constexpr Crc32c ways[] = {crc32c_vpclmul_wide, crc32c_vpclmul, crc32c_sse42, crc32c_by_table};
  if (!__builtin_cpu_supports("sse4.2")) return std::span(ways).last(1);
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("vpclmulqdq"))
    return std::span(ways).last(2);
  if (!__builtin_cpu_supports("avx512f")) return std::span(ways).last(3);
#else
  static constexpr Crc32c ways[] = {crc32c_by_table};
#endif
  return ways;
}

std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t previous) {
  static const Crc32c fastest = crc32c_ways().front();
  return fastest(data, size, previous);
}

}  // namespace mlk::rt
