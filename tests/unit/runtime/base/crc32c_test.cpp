#include "runtime/base/crc32c.h"

#include <string>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/base/crc32c");

using namespace mlk::rt;

namespace {

// The checksum bit by bit, as it is defined.
std::uint32_t crc32c_by_bits(const std::string& data, std::uint32_t previous) {
  std::uint32_t crc = ~previous;
  for (const char byte : data) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

std::string noise(std::size_t size) {
  std::string data;
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < size; ++i) {
    state = state * 1664525 + 1013904223;
    data += static_cast<char>(state >> 24);
  }
  return data;
}

}  // namespace

TEST_CASE("each implementation of CRC-32C matches the definition at the sizes where its algorithm changes") {
  const std::string data = noise(7 * 3072 + 9);
  REQUIRE(!crc32c_ways().empty());
  for (const std::size_t around :
       {0u, 8u, 16u, 32u, 64u, 128u, 256u, 384u, 512u, 768u, 1024u, 3072u, 6144u, 7 * 3072u}) {
    for (std::size_t size = around < 9 ? 0 : around - 9; size <= around + 9; ++size) {
      CAPTURE(size);
      for (const std::uint32_t previous : {0u, 1u, 0x80000000u, 0xffffffffu, 0x12345678u}) {
        const std::uint32_t expected = crc32c_by_bits(data.substr(0, size), previous);
        CHECK(crc32c(data.data(), size, previous) == expected);
        for (const Crc32c way : crc32c_ways()) CHECK(way(data.data(), size, previous) == expected);
      }
    }
  }
}

TEST_CASE("crc32c() starts with the given checksum of earlier bytes, or with 0") {
  const std::string data = noise(2000);
  const std::uint32_t whole = crc32c_by_bits(data, 0);
  CHECK(crc32c(data.data(), data.size()) == whole);
  for (const std::size_t cut : {1u, 7u, 256u, 777u, 1999u}) {
    const std::uint32_t before = crc32c(data.data(), cut);
    CHECK(crc32c(data.data() + cut, data.size() - cut, before) == whole);
    CHECK(crc32c(nullptr, 0, before) == before);
  }
}

TEST_CASE(
    "a changed bit in any byte, or in the earlier checksum, changes the result of each implementation") {
  const std::string data = noise(4000);
  for (const Crc32c way : crc32c_ways()) {
    const std::uint32_t before = way(data.data(), data.size(), 0);
    std::string changed = data;
    for (std::size_t i = 0; i < data.size(); ++i) {
      changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
      if (way(changed.data(), changed.size(), 0) == before) FAIL_CHECK("byte ", i);
      changed[i] = data[i];
    }
    for (int bit = 0; bit < 32; ++bit) CHECK(way(data.data(), data.size(), 1u << bit) != before);
  }
}

TEST_CASE("crc32c gives the published values") {
  // RFC 3720, appendix B.4, and the customary check value.
  CHECK(crc32c("123456789", 9) == 0xe3069283);
  CHECK(crc32c(std::string(32, '\0').data(), 32) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff').data(), 32) == 0x62a8ab43);
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending += static_cast<char>(i);
  CHECK(crc32c(ascending.data(), 32) == 0x46dd794e);
  CHECK(crc32c(nullptr, 0) == 0);
}

TEST_CASE(
    "all implementations of CRC-32C agree at the sizes where streams are joined and blocks are folded") {
  std::string data;
  for (int i = 0; i < 20'000; ++i) data += static_cast<char>(i * i + i / 256);
  const Crc32c by_table = crc32c_ways().back();
  for (const std::size_t size : {3071u, 3072u, 3073u, 6143u, 6144u, 9999u, 20'000u}) {
    for (const Crc32c way : crc32c_ways()) {
      CHECK(way(data.data(), size, 0) == by_table(data.data(), size, 0));
      CHECK(way(data.data() + 1, size - 1, 7) == by_table(data.data() + 1, size - 1, 7));
    }
  }
}

TEST_CASE("all implementations of CRC-32C agree for every length up to 700 bytes, in one piece and in two") {
  std::string data;
  for (int i = 0; i < 700; ++i) data += static_cast<char>(i * i + 7);
  for (std::size_t size = 0; size <= data.size(); ++size) {
    const std::uint32_t whole = crc32c_ways().back()(data.data(), size, 0);
    const std::size_t cut = size / 3;
    for (const Crc32c way : crc32c_ways()) {
      CHECK(way(data.data(), size, 0) == whole);
      CHECK(way(data.data() + cut, size - cut, way(data.data(), cut, 0)) == whole);
    }
  }
}
