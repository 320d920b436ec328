#include "runtime/base/sha_extensions.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

namespace mlk::rt {

namespace {

bool ask_processor() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned sha = 1u << 29, sse41 = 1u << 19, ssse3 = 1u << 9;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (b & sha) == 0) return false;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & sse41) != 0 && (c & ssse3) != 0;
}

const bool has_extensions = ask_processor();

}  // namespace

bool has_sha_extensions() { return has_extensions; }

// The instructions hold the eight words as (a, b, e, f) and (c, d, g, h), the first one in the highest place.
__attribute__((target("sha,sse4.1,ssse3"))) void compress_by_extensions(std::array<std::uint32_t, 8>& state,
                                                                        const std::byte* block) {
  const auto load = [](const void* from) __attribute__((target("sha,sse4.1,ssse3"))) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  };
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i cdab = _mm_shuffle_epi32(load(state.data()), 0xb1),
                efgh = _mm_shuffle_epi32(load(&state[4]), 0x1b);
  const __m128i abef_before = _mm_alignr_epi8(cdab, efgh, 8), cdgh_before = _mm_blend_epi16(efgh, cdab, 0xf0);
  __m128i abef = abef_before, cdgh = cdgh_before;
  __m128i words[4];  // the last 16 words of the message schedule
  for (int i = 0; i < 16; ++i) {
    __m128i& now = words[i % 4];
    if (i < 4) {
      now = _mm_shuffle_epi8(load(block + 16 * i), big_endian);
    } else {
      const __m128i last = words[(i + 3) % 4], before_last = words[(i + 2) % 4];
      const __m128i sum =
          _mm_add_epi32(_mm_sha256msg1_epu32(now, words[(i + 1) % 4]), _mm_alignr_epi8(last, before_last, 4));
      now = _mm_sha256msg2_epu32(sum, last);
    }
    const __m128i input = _mm_add_epi32(now, load(sha256_constants + 4 * i));  // of four rounds
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, input);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(input, 0x0e));
  }
  const __m128i feba = _mm_shuffle_epi32(_mm_add_epi32(abef, abef_before), 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(_mm_add_epi32(cdgh, cdgh_before), 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data()), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(dchg, feba, 8));
}

}  // namespace mlk::rt

#else

namespace mlk::rt {

bool has_sha_extensions() { return false; }
void compress_by_extensions(std::array<std::uint32_t, 8>&, const std::byte*) {}

}  // namespace mlk::rt

#endif
