// Headers of frames: decoding returns the values that were encoded, and refuses wrong bytes.
#include "runtime/transport/wire.h"

#include <random>

#include <doctest/doctest.h>

#include "runtime/base/payload.h"

TEST_SUITE_BEGIN("runtime/transport/wire");

using namespace mlk::rt;

namespace {

Header sample() {
  Header header;
  header.type = MessageType::push;
  header.flags = 3;
  header.data_type = DataType::float32;
  header.sender = {Role::server, 0x123456};
  header.key = 0xdeadbeef;
  header.generation = 7;
  header.incarnation = 0x1122334455667788;
  header.clock = 1ull << 40;
  header.offset = 12;
  header.length = 4096;
  header.sequence = 99;
  header.payload_crc = 0xcafebabe;
  return header;
}

}  // namespace

TEST_CASE("a header decodes to the values that were encoded") {
  Header decoded;
  CHECK(decode(encode(sample()), 4096, decoded) == WireFault::none);
  CHECK(decoded == sample());
}

TEST_CASE("a header has the same bytes on every machine") {
  const auto bytes = encode(sample());
  CHECK(std::to_integer<char>(bytes[0]) == 'M');
  CHECK(std::to_integer<char>(bytes[3]) == '1');
  CHECK(std::to_integer<int>(bytes[12]) == 0xef);
  CHECK(std::to_integer<int>(bytes[24]) == 0x88);
  CHECK(std::to_integer<int>(bytes[49]) == 0x10);
}

TEST_CASE("a length beyond the limit is refused") {
  Header decoded;
  CHECK(decode(encode(sample()), 4095, decoded) == WireFault::length);
  CHECK(decoded == Header());
}

TEST_CASE("a payload of floats is refused if its length is not a multiple of the size of a float") {
  Header header = sample(), decoded;
  header.length = 5;
  CHECK(decode(encode(header), 4096, decoded) == WireFault::length);
}

TEST_CASE("a header with any one bit flipped is refused") {
  const auto good = encode(sample());
  for (std::size_t bit = 0; bit < 8 * header_size; ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    Header decoded;
    CHECK(decode(bytes, 1u << 30, decoded) != WireFault::none);
  }
}

TEST_CASE("random bytes are refused") {
  std::mt19937 random(1);
  std::array<std::byte, header_size> bytes;
  for (int round = 0; round < 10000; ++round) {
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    Header decoded;
    CHECK(decode(bytes, 0xffffffff, decoded) != WireFault::none);
  }
}

TEST_CASE("an unknown role and an unknown type are different faults") {
  Header header = sample(), decoded;
  header.sender.role = static_cast<Role>(9);
  CHECK(decode(encode(header), 4096, decoded) == WireFault::role);
  header = sample();
  header.type = static_cast<MessageType>(250);
  CHECK(decode(encode(header), 4096, decoded) == WireFault::type);
}

TEST_CASE("different incarnations have different hashes, and no hash is 0") {
  CHECK(hash_incarnation("a") != hash_incarnation("b"));
  CHECK(hash_incarnation("") != 0);
}

TEST_CASE("a payload is read as it was written, and the reader reports a payload that is cut off") {
  const Bytes bytes = PayloadWriter().put<std::uint32_t>(5).text("abc").put(2.5).bytes();
  PayloadReader whole(bytes);
  CHECK(whole.get<std::uint32_t>() == 5);
  CHECK(whole.text() == "abc");
  CHECK(whole.get<double>() == 2.5);
  CHECK(whole.complete());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    PayloadReader cut({bytes.data(), size});
    cut.get<std::uint32_t>();
    cut.text();
    CHECK(cut.get<double>() == 0);
    CHECK_FALSE(cut.complete());
  }
}
