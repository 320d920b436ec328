#include "runtime/crc32c.h"

#include <string>

#include <doctest/doctest.h>

using namespace mlk::rt;

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

TEST_CASE("all ways agree where streams are joined and blocks are folded") {
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

TEST_CASE("all ways agree at every length, and in pieces") {
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
