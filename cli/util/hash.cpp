#include "cli/util/hash.h"

#include <algorithm>
#include <new>
#include <stdexcept>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

namespace mlk {

std::array<unsigned char, 32> sha256(std::string_view bytes) {
  std::array<unsigned char, 32> digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return digest;
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

namespace {

std::string_view view(const std::array<unsigned char, 32>& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::unique_ptr<void, void (*)(void*)> new_digest() {
  std::unique_ptr<void, void (*)(void*)> out(
      EVP_MD_CTX_new(), [](void* context) { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context)); });
  if (out == nullptr) throw std::bad_alloc();
  return out;
}

EVP_MD_CTX* context(const std::unique_ptr<void, void (*)(void*)>& state) {
  return static_cast<EVP_MD_CTX*>(state.get());
}

}  // namespace

std::string sha256_hex(std::string_view bytes) { return hex(view(sha256(bytes))); }

Sha256::Sha256() : state_(new_digest()) { EVP_DigestInit_ex(context(state_), EVP_sha256(), nullptr); }

void Sha256::add(std::string_view bytes) { EVP_DigestUpdate(context(state_), bytes.data(), bytes.size()); }

std::string Sha256::hex() const {
  const auto copy = new_digest();
  EVP_MD_CTX_copy_ex(context(copy), context(state_));
  std::array<unsigned char, 32> digest;
  EVP_DigestFinal_ex(context(copy), digest.data(), nullptr);
  return mlk::hex(view(digest));
}

std::string sha256_base32(std::string_view bytes, std::size_t length) {
  constexpr char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
  const std::array<unsigned char, 32> digest = sha256(bytes);
  std::string out;
  unsigned bits = 0;
  int have = 0;
  for (std::size_t i = 0; i < digest.size() && out.size() < length; ++i) {
    bits = (bits << 8) | digest[i];
    have += 8;
    while (have >= 5 && out.size() < length) {
      have -= 5;
      out += digits[(bits >> have) & 31];
    }
  }
  return out;
}

std::string base64_encode(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(length));
  return out;
}

std::string base64_decode(std::string_view text) {
  std::string compact;
  for (const char c : text) {
    if (c != '\n' && c != '\r' && c != ' ') compact += c;
  }
  // OpenSSL decodes every '=' as a zero, but base64 allows at most two, and only at the end.
  const std::size_t padding = std::min(compact.find('='), compact.size());
  const bool padded_well =
      compact.size() - padding <= 2 && compact.find_first_not_of('=', padding) == std::string::npos;
  if (compact.size() % 4 != 0 || !padded_well) throw std::invalid_argument("not base64");
  std::string out(compact.size() / 4 * 3 + 1, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(compact.data()),
                                     static_cast<int>(compact.size()));
  if (length < 0) throw std::invalid_argument("not base64");
  std::size_t size = static_cast<std::size_t>(length);
  for (int i = 0; i < 2 && !compact.empty() && compact.back() == '='; ++i) {
    compact.pop_back();
    --size;
  }
  out.resize(size);
  return out;
}

std::string random_bytes(std::size_t count) {
  std::string out(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(count)) != 1) {
    throw std::runtime_error("the operating system gives no random bytes");
  }
  return out;
}

}  // namespace mlk
