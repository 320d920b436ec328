// Digests, encodings and random bytes.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace mlk {

std::array<unsigned char, 32> sha256(std::string_view bytes);
std::string hex(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);

// The digest of bytes that are added in parts.
class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  std::string hex() const;  // the digest of all bytes that were added so far

 private:
  std::unique_ptr<void, void (*)(void*)> state_;
};

// The first `length` characters of the SHA-256 in RFC 4648 base32, lower case: letters and 2-7, safe in
// names.
std::string sha256_base32(std::string_view bytes, std::size_t length);

std::string base64_encode(std::string_view bytes);
// Throws std::invalid_argument if the text is not base64.
std::string base64_decode(std::string_view text);

// Bytes for keys and tokens, from the generator of OpenSSL, which the operating system seeds. Throws
// std::runtime_error if the generator fails.
std::string random_bytes(std::size_t count);

}  // namespace mlk
