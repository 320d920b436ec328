// The loopback addresses of pods: one for each host name of a namespace.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace mlk::local {

// For one thread at a time.
class Addresses {
 public:
  explicit Addresses(std::filesystem::path file);  // reads what save() wrote

  // An address in 127.64.0.0/10 from the hash of the name, so that the address of a pod is known before the
  // pod exists. If two names collide, the second name gets the next free address. A name keeps its address
  // until forget_unless().
  std::string address_of(const std::string& name_space, const std::string& host);

  // The port on which the host can listen: the wanted port or, if another program listens on the wanted port
  // (possibly at all addresses, 0.0.0.0), the next free port of the host's address. Until forget_ports(),
  // every call for the same host and wanted port has the same result, since the pods do not tell each other
  // their ports.
  int port_of(const std::string& name_space, const std::string& service, const std::string& host, int wanted);
  // Like port_of(), but no other host of this cluster has the port, and no program of this machine listens on
  // the port at any address. Such a port is for programs that listen at all addresses. The name determines
  // the first choice, so that other clusters of this machine seldom choose the same port at the same time.
  int own_port_of(const std::string& name_space, const std::string& service, const std::string& host,
                  int wanted);
  void forget_ports(const std::string& name_space, const std::string& service);

  void save();  // call it before the use of new addresses
  // Forgets the hosts for which `used` returns false. The argument of `used` is "namespace/host".
  template <class Used>
  void forget_unless(const Used& used) {
    for (auto at = by_host_.begin(); at != by_host_.end();) {
      if (used(at->first)) {
        ++at;
        continue;
      }
      taken_.erase(at->second);
      forget_ports_of(at->first);
      at = by_host_.erase(at);
      changed_ = true;
    }
  }

 private:
  void forget_ports_of(const std::string& host);

  const std::filesystem::path file_;
  std::map<std::string, std::string> by_host_;
  std::set<std::string> taken_;
  // "namespace/service" -> "namespace/host:port" -> port
  std::map<std::string, std::map<std::string, int>> ports_;
  bool changed_ = false;
};

}  // namespace mlk::local
