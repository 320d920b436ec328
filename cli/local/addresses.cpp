#include "cli/local/addresses.h"

#include <nlohmann/json.hpp>

#include "cli/util/files.h"
#include "cli/util/hash.h"

namespace mlk::local {

Addresses::Addresses(std::filesystem::path file) : file_(std::move(file)) {
  if (!std::filesystem::exists(file_)) return;
  const nlohmann::json saved = nlohmann::json::parse(read_file(file_, 64 << 20), nullptr, false);
  if (!saved.is_object()) return;
  for (const auto& [host, address] : saved.items()) {
    by_host_[host] = address.get<std::string>();
    taken_.insert(by_host_[host]);
  }
}

std::string Addresses::address_of(const std::string& name_space, const std::string& host) {
  const std::string key = name_space + "/" + host;
  if (const auto known = by_host_.find(key); known != by_host_.end()) return known->second;
  const auto digest = sha256(key);
  unsigned number =
      static_cast<unsigned>(digest[0]) << 16 | static_cast<unsigned>(digest[1]) << 8 | digest[2];
  while (true) {
    const unsigned last = number & 0xff;
    const std::string address = "127." + std::to_string(64 + ((number >> 16) & 0x3f)) + "." +
                                std::to_string((number >> 8) & 0xff) + "." + std::to_string(last);
    ++number;
    if (last == 0 || last == 255 || !taken_.insert(address).second) continue;
    by_host_[key] = address;
    changed_ = true;
    return address;
  }
}

void Addresses::save() {
  if (!changed_) return;
  write_file_atomically(file_, nlohmann::json(by_host_).dump(), 0600);
  changed_ = false;
}

}  // namespace mlk::local
