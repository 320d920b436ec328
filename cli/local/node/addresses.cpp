#include "cli/local/node/addresses.h"

#include <arpa/inet.h>
#include <cerrno>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"

namespace mlk::local {

namespace {

constexpr char ports_key[] = "ports";  // no host has this key, since keys of hosts begin with a namespace

// Whether a program could listen at this port of the address now.
bool can_listen(const std::string& address, int port) {
  struct sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  if (port <= 0 || port > 65535 || ::inet_pton(AF_INET, address.c_str(), &where.sin_addr) != 1) return false;
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return true;
  const int yes = 1;  // closed connections do not block the port; a listening socket still does
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const bool free =
      ::bind(fd, reinterpret_cast<const struct sockaddr*>(&where), sizeof where) == 0 && ::listen(fd, 1) == 0;
  const bool taken = !free && errno == EADDRINUSE;
  ::close(fd);
  return !taken;
}

}  // namespace

Addresses::Addresses(std::filesystem::path file) : file_(std::move(file)) {
  if (!std::filesystem::exists(file_)) return;
  const nlohmann::json saved = json_or_null(read_file(file_, 64 << 20));
  if (!saved.is_object()) return;
  for (const auto& [host, address] : saved.items()) {
    try {
      if (host == ports_key) {
        ports_ = address.get<decltype(ports_)>();
      } else {
        by_host_[host] = address.get<std::string>();
        taken_.insert(by_host_[host]);
      }
    } catch (const nlohmann::json::exception&) {
      continue;  // mlk has not written this value, so mlk ignores the value
    }
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

int Addresses::port_of(const std::string& name_space, const std::string& service, const std::string& host,
                       int wanted) {
  constexpr int attempts = 100;
  auto& known = ports_[name_space + "/" + service];
  const std::string key = name_space + "/" + host + ":" + std::to_string(wanted);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  const std::string address = address_of(name_space, host);
  int port = wanted;
  while (port < wanted + attempts && !can_listen(address, port)) ++port;
  changed_ = true;
  return known[key] = port < wanted + attempts ? port : wanted;
}

int Addresses::own_port_of(const std::string& name_space, const std::string& service, const std::string& host,
                           int wanted) {
  // These ports are above the usual ports of services and below the ports that systems give to clients.
  constexpr int first_port = 10000, ports = 20000;
  const std::string name = name_space + "/" + host;
  const std::string key = name + ":" + std::to_string(wanted);
  const std::string group = name_space + "/" + service;
  if (const auto found = ports_[group].find(key); found != ports_[group].end()) return found->second;
  std::set<int> given;
  for (const auto& [unused, of_service] : ports_) {
    for (const auto& [host_and_port, port] : of_service) given.insert(port);
  }
  const auto digest = sha256(name);
  const unsigned number =
      static_cast<unsigned>(digest[3]) << 16 | static_cast<unsigned>(digest[4]) << 8 | digest[5];
  int offset = static_cast<int>(number % ports), tries = 0;
  while (tries < ports && (given.count(first_port + offset) || !can_listen("0.0.0.0", first_port + offset))) {
    offset = (offset + 1) % ports;
    ++tries;
  }
  address_of(name_space, host);  // registers the host for forget_unless()
  changed_ = true;
  return ports_[group][key] = tries < ports ? first_port + offset : wanted;
}

void Addresses::forget_ports(const std::string& name_space, const std::string& service) {
  changed_ = ports_.erase(name_space + "/" + service) > 0 || changed_;
}

void Addresses::forget_ports_of(const std::string& host) {
  for (auto& [service, ports] : ports_)
    std::erase_if(ports, [&](const auto& entry) { return entry.first.starts_with(host + ":"); });
  std::erase_if(ports_, [](const auto& entry) { return entry.second.empty(); });
}

void Addresses::save() {
  if (!changed_) return;
  nlohmann::json all = by_host_;
  all[ports_key] = ports_;
  write_file_atomically(file_, all.dump(), 0600);
  changed_ = false;
}

}  // namespace mlk::local
