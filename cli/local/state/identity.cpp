#include "cli/local/state/identity.h"

#include "cli/util/hash.h"

namespace mlk::local {

std::string new_uid() {
  std::string bytes = random_bytes(16);
  bytes[6] = static_cast<char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<char>((bytes[8] & 0x3f) | 0x80);
  std::string text = hex(bytes);
  for (const std::size_t at : {8u, 13u, 18u, 23u}) text.insert(at, "-");
  return text;
}

std::string uid_of(const nlohmann::json& object) {
  return object.at("metadata").at("uid").get<std::string>();
}

std::string random_suffix() {
  constexpr char letters[] = "bcdfghjklmnpqrstvwxz2456789";
  std::string suffix;
  for (const char byte : random_bytes(5))
    suffix += letters[static_cast<unsigned char>(byte) % (sizeof letters - 1)];
  return suffix;
}

}  // namespace mlk::local
