// Bytes and texts on which other processes and people rely: headers, proofs, keys and names.
#include <array>
#include <string>

#include <doctest/doctest.h>

#include "runtime/base/crc32c.h"
#include "runtime/base/exit_code.h"
#include "runtime/base/hmac.h"
#include "runtime/base/payload.h"
#include "runtime/transport/handshake.h"
#include "runtime/transport/posted_receives.h"
#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/transport/wire_texts");

namespace mlk::rt {
namespace {
namespace texts {

TEST_CASE("each field of a header has its place, little endian, with the checksum of all fields at the end") {
  Header header;
  header.type = MessageType::push;
  header.flags = 0x21;
  header.data_type = DataType::float32;
  header.sender = {Role::server, 0x345678};
  header.key = 0x01020304;
  header.generation = 0x1112131415161718;
  header.incarnation = 0x2122232425262728;
  header.clock = 0x3132333435363738;
  header.offset = 0x4142434445464748;
  header.length = 0x51525354;
  header.sequence = 0x61626364;
  header.payload_crc = 0x71727374;
  const std::array<int, 60> expected = {
      'M',  'L',  'K',  '1',  1,    23,   0x21, 1,    0x78, 0x56, 0x34, 2,    4,    3,    2,
      1,    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23,
      0x22, 0x21, 0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, 0x48, 0x47, 0x46, 0x45, 0x44,
      0x43, 0x42, 0x41, 0x54, 0x53, 0x52, 0x51, 0x64, 0x63, 0x62, 0x61, 0x74, 0x73, 0x72, 0x71};
  const auto bytes = encode(header);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::to_integer<int>(bytes[i]) == expected[i]);
  }
  const std::uint32_t checksum = crc32c(bytes.data(), 60);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(std::to_integer<std::uint32_t>(bytes[60 + i]) == (checksum >> (8 * i) & 0xff));
  header.sender = {Role::worker, 0xff123456};  // a rank has 24 bits
  Header decoded;
  CHECK(decode(encode(header), ~0u, decoded) == WireFault::none);
  CHECK(decoded.sender == PeerId{Role::worker, 0x123456});
}

TEST_CASE("the error for a faulty header names its first fault") {
  struct Wrong {
    std::size_t at;
    WireFault fault;
    const char* text;
  };
  for (const Wrong& wrong : {Wrong{0, WireFault::magic, "not our protocol"},
                             Wrong{4, WireFault::version, "another version of the protocol"},
                             Wrong{20, WireFault::checksum, "wrong checksum"}}) {
    auto bytes = encode({});
    bytes[wrong.at] ^= std::byte{1};
    Header decoded;
    CHECK(decode(bytes, 100, decoded) == wrong.fault);
    CHECK(describe(wrong.fault) == wrong.text);
  }
  CHECK(describe(WireFault::none) == "no fault");
  CHECK(describe(WireFault::type) == "unknown type of message");
  CHECK(describe(WireFault::role) == "unknown role");
  CHECK(describe(WireFault::length) == "length beyond the limit");
  CHECK(describe(WireFault::lane) == "shared memory that is not as it should be");
  CHECK(describe(static_cast<WireFault>(99)).empty());
  Header header, decoded;
  header.data_type = static_cast<DataType>(2);
  CHECK(decode(encode(header), 100, decoded) == WireFault::type);
  header = {};
  for (const int role : {0, 3}) {
    header.sender.role = static_cast<Role>(role);
    CHECK(decode(encode(header), 100, decoded) == WireFault::role);
  }
  header = {};
  header.length = 5;  // not a multiple of a float, but the type is bytes
  CHECK(decode(encode(header), 5, decoded) == WireFault::none);
  CHECK(decoded == header);
}

TEST_CASE("the types of messages are in three ranges, and no type outside of them is known") {
  for (int type = 0; type < 256; ++type) {
    CAPTURE(type);
    const bool known = (type >= 1 && type <= 6) || (type >= 16 && type <= 33) || (type >= 64 && type <= 72);
    CHECK_MESSAGE(is_known(static_cast<MessageType>(type)) == known,
                  "a new type: name it in is_known() of wire.cpp, and its number here");
  }
}

TEST_CASE("the name of a peer is its role and rank") {
  CHECK(to_string(PeerId{Role::worker, 3}) == "worker/3");
  CHECK(to_string(PeerId{Role::server, 0}) == "server/0");
  CHECK(to_string(PeerId()) == "worker/0");
}

TEST_CASE("a proof is the HMAC of the side, the run and both introductions, in this order") {
  const Key key = parse_key(std::string(64, '7'));
  Introduction dialler{{Role::worker, 2}, 11, "one:1", {}}, listener{{Role::server, 3}, 12, "two:2", {}};
  dialler.nonce.fill(std::byte{5});
  listener.nonce.fill(std::byte{6});
  for (const bool by_listener : {true, false}) {
    PayloadWriter text;
    text.text(by_listener ? "mlk listener 1" : "mlk dialler 1").text("run");
    text.put<std::uint8_t>(1).put<std::uint32_t>(2).put<std::uint64_t>(11).text("one:1").raw(dialler.nonce);
    text.put<std::uint8_t>(2).put<std::uint32_t>(3).put<std::uint64_t>(12).text("two:2").raw(listener.nonce);
    CHECK(prove(key, by_listener ? Side::listener : Side::dialler, "run", dialler, listener) ==
          hmac_sha256(key, text.bytes()));
  }
}

TEST_CASE("the hexadecimal digits of a key may be upper or lower case, with any white space around them") {
  const std::string digits = "0123456789abcdefABCDEF9876543210" + std::string(32, '0');
  const std::array<int, 16> expected = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                        0xab, 0xcd, 0xef, 0x98, 0x76, 0x54, 0x32, 0x10};
  for (const std::string& text : {digits, " \t\r\n" + digits + "\n\r\t "}) {
    const Key key = parse_key(text);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::to_integer<int>(key[i]) == expected[i]);
    CHECK(key[31] == std::byte{0});
  }
  const auto reason = [](const std::string& text) {
    try {
      parse_key(text);
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::bad_configuration);
      return std::string(failure.what());
    }
    return std::string();
  };
  const std::string none = "the key of the run is not 64 hexadecimal digits";
  for (const char bad : {'/', ':', '@', 'G', '`', 'g', ' ', '\0', '-', '+', 'x'}) {
    CHECK(reason(digits.substr(0, 63) + bad) == none);
    CHECK(reason(digits.substr(0, 62) + bad + "0") == none);
  }
  CHECK(reason("") == none);
  CHECK(reason(" \n\t\r") == none);
  CHECK(reason(digits).empty());
}

TEST_CASE("the key of a run is read from its file, and the error for a missing file names it") {
  const test::TemporaryFolder folder;
  test::write_file(folder / "key", std::string(64, 'c') + "\n");
  CHECK(load_key(folder / "key") == parse_key(std::string(64, 'c')));
  test::write_file(folder / "empty", "");
  test::write_file(folder / "long", std::string(300, 'c'));
  for (const char* name : {"none", "empty"}) {
    try {
      load_key(folder / name);
      FAIL("it was read");
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::bad_configuration);
      CHECK(failure.what() == "cannot read the key of the run: " + (folder / name));
    }
  }
  CHECK_THROWS_AS(load_key(folder / "long"), Failure);
  CHECK(random_nonce() != random_nonce());
}

TEST_CASE(
    "a text in a payload is cut at 65535 bytes, and a read beyond the end of a payload returns 0 or no "
    "bytes") {
  const Bytes bytes = PayloadWriter().text(std::string(70'000, 'x')).put<std::uint8_t>(9).bytes();
  CHECK(bytes.size() == 2 + 65535 + 1);
  PayloadReader reader(bytes);
  CHECK(reader.left() == bytes.size());
  CHECK(reader.text() == std::string(65535, 'x'));
  CHECK(reader.left() == 1);
  CHECK(reader.ok());
  CHECK_FALSE(reader.complete());
  CHECK(reader.get<std::uint8_t>() == 9);
  CHECK(reader.complete());
  CHECK(reader.get<std::uint16_t>() == 0);
  CHECK_FALSE(reader.ok());
  PayloadReader failed(bytes);
  CHECK(failed.raw(bytes.size() + 1).empty());
  CHECK(failed.raw(1).empty());  // even the first byte, which exists
  CHECK(failed.get<std::uint8_t>() == 0);
  CHECK(failed.text().empty());
  CHECK(PayloadReader({}).complete());
  Bytes all;
  append(all, {});
  CHECK(all.empty());
  append(all, Bytes(2, std::byte{1}));
  append(all, Bytes(1, std::byte{2}));
  CHECK(all == Bytes{std::byte{1}, std::byte{1}, std::byte{2}});
}

TEST_CASE("a frame is received into the last buffer that was posted with the same five fields") {
  PostedReceives posted_receives;
  std::array<std::byte, 4> first{}, second{};
  const ReceiveKey key{{Role::worker, 1}, MessageType::push, 2, 3, 4};
  CHECK(posted_receives.epoch() == 0);
  posted_receives.post(key, first);
  posted_receives.post(key, second, ReceiveMode::add);
  for (const ReceiveKey& other : {ReceiveKey{{Role::server, 1}, MessageType::push, 2, 3, 4},
                                  ReceiveKey{{Role::worker, 2}, MessageType::push, 2, 3, 4},
                                  ReceiveKey{{Role::worker, 1}, MessageType::pull, 2, 3, 4},
                                  ReceiveKey{{Role::worker, 1}, MessageType::push, 9, 3, 4},
                                  ReceiveKey{{Role::worker, 1}, MessageType::push, 2, 9, 4},
                                  ReceiveKey{{Role::worker, 1}, MessageType::push, 2, 3, 9}})
    CHECK_FALSE(posted_receives.claim(other, 4));
  CHECK_FALSE(posted_receives.claim(key, 5));
  const auto ticket = posted_receives.claim(key, 4);
  REQUIRE(ticket);
  CHECK(ticket->buffer.data() == second.data());
  CHECK(ticket->how == ReceiveMode::add);
  CHECK(ticket->epoch == 0);
  posted_receives.post(key, first);
  {
    const PostedReceivesGuard guard(posted_receives);
  }
  CHECK(posted_receives.epoch() == 1);
  CHECK_FALSE(posted_receives.claim(key, 4));
  posted_receives.post(key, first);
  const auto next = posted_receives.claim(key, 4);
  REQUIRE(next);
  CHECK(next->how == ReceiveMode::replace);
  CHECK(next->epoch == 1);
  CHECK(posted_receives.sending([] { return 7; }) == 7);
}

TEST_CASE("an incarnation is hashed to the first eight bytes of its SHA-256") {
  CHECK(hash_incarnation("a") == 0xcabd1bca128197ca);
  CHECK(hash_incarnation("") == 0x141cfc9842c4b0e3);
}

}  // namespace texts
}  // namespace
}  // namespace mlk::rt
