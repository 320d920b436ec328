#include "cli/util/hash.h"

#include <stdexcept>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("util/hash");

TEST_CASE("SHA-256 gives the published digests") {
  CHECK(mlk::sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(mlk::sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("sha256_base32() returns lower-case base32 of the requested length") {
  // The beginning of the base32 of the digest of "abc".
  CHECK(mlk::sha256_base32("abc", 5) == "xj4bn");
  CHECK(mlk::sha256_base32("abc", 51).size() == 51);
  CHECK(mlk::sha256_base32("abc", 0).empty());
  CHECK(mlk::sha256_base32("abd", 5) != "xj4bn");
}

TEST_CASE("base64 encodes and decodes the test vectors of RFC 4648") {
  const std::pair<const char*, const char*> vectors[] = {
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}};
  for (const auto& [plain, encoded] : vectors) {
    CHECK(mlk::base64_encode(plain) == encoded);
    CHECK(mlk::base64_decode(encoded) == plain);
  }
  CHECK(mlk::base64_decode("Zm9v\nYg==\n") == "foob");  // folded as in kubeconfig files
  CHECK(mlk::base64_decode("AAA=") == std::string(2, '\0'));
}

TEST_CASE("base64_decode() refuses text that is not base64") {
  for (const std::string text : {"Zg=", "Z", "Zm9v!", "Zm9*", "====", "Zg==Zg==", "Z===", "=m9v"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(mlk::base64_decode(text), std::invalid_argument);
  }
}

TEST_CASE("random bytes differ from call to call") {
  const std::string bytes = mlk::random_bytes(32);
  CHECK(bytes.size() == 32);
  CHECK(bytes != mlk::random_bytes(32));
}

TEST_CASE("hex() writes each byte as two digits") {
  CHECK(mlk::hex(std::string("\x00\xff\x1a", 3)) == "00ff1a");
}
