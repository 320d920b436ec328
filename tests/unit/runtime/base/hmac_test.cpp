// The published vectors of SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 4231).
#include "runtime/base/hmac.h"

#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "runtime/base/sha_extensions.h"

TEST_SUITE_BEGIN("runtime/base/hmac");

using namespace mlk::rt;

namespace {

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte b : digest) {
    text += "0123456789abcdef"[std::to_integer<int>(b) >> 4];
    text += "0123456789abcdef"[std::to_integer<int>(b) & 15];
  }
  return text;
}

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

TEST_CASE("sha256 gives the published digests") {
  CHECK(hex(sha256(bytes(""))) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex(sha256(bytes("abc"))) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex(sha256(bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hex(sha256(bytes(std::string(1'000'000, 'a')))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("a message that comes in parts has the digest of the whole message") {
  const std::string text =
      "The quick brown fox jumps over the lazy dog, again and again, until there are four blocks. " +
      std::string(170, 'x');
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 hash;
    hash.add(bytes(text.substr(0, cut)));
    (void)hash.digest();  // does not end the message
    hash.add(bytes(text.substr(cut)));
    CHECK(hash.digest() == sha256(bytes(text)));
  }
}

TEST_CASE("the instructions for SHA-256 give what the plain loop gives") {
  if (!has_sha_extensions()) return;  // then no digest depends on them
  std::array<std::uint32_t, 8> one{1, 2, 3, 4, 5, 6, 7, 8}, other = one;
  std::array<std::byte, 64> block{};
  for (int i = 0; i < 1000; ++i) {
    for (std::size_t k = 0; k < block.size(); ++k)
      block[k] = static_cast<std::byte>((i * 131 + k * 29) % 251);
    compress_by_extensions(one, block.data());
    compress_plainly(other, block.data());
    REQUIRE(one == other);
  }
}

TEST_CASE("hmac_sha256 gives the digests of RFC 4231") {
  const auto hmac = [](const std::string& key, const std::string& text) {
    return hex(hmac_sha256(bytes(key), bytes(text)));
  };
  std::string counting;
  for (char c = 1; c <= 25; ++c) counting += c;
  CHECK(hmac(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hmac("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac(std::string(20, '\xaa'), std::string(50, '\xdd')) ==
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  CHECK(hmac(counting, std::string(50, '\xcd')) ==
        "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  CHECK(hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(hmac(std::string(131, '\xaa'),
             "This is a test using a larger than block-size key and a larger than block-size data. The key "
             "needs "
             "to be hashed before being used by the HMAC algorithm.") ==
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST_CASE("hmac_sha256() first hashes the key if it is longer than a block") {
  const auto hmac = [](std::size_t size) {
    return hex(hmac_sha256(bytes(std::string(size, 'k')), bytes("what is said")));
  };
  // Computed with Python's hmac.
  CHECK(hmac(63) == "9b4dc57086724a4939ddf84d845217a00a2b2f4777a13e08f9a5f5e69d88b4e0");
  CHECK(hmac(64) == "5cfc7f452354e123f06e38f53991e92eb296238abc3a0f7504ce431c4c12d5e7");
  CHECK(hmac(65) == "6119909dbfc45b388614eefdc4c4f886487657a41cfd76cc916cb054414167a3");
}

TEST_CASE("equal_in_constant_time() is false if two digests differ in any byte") {
  const Digest digest = sha256(bytes("abc"));
  CHECK(equal_in_constant_time(digest, digest));
  for (std::size_t i = 0; i < digest.size(); ++i) {
    Digest other = digest;
    other[i] ^= std::byte{1};
    CHECK_FALSE(equal_in_constant_time(digest, other));
  }
}
