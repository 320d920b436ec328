// The loopback addresses of pods: one for each host name of a namespace.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace mlk::local {

// Not for several threads at once.
class Addresses {
 public:
  explicit Addresses(std::filesystem::path file);  // what save() wrote before

  // 127.64.0.0/10, from the hash of the name, so that the address of a pod that does not exist yet can be
  // told; the next free one when two names meet. The same for ever once given.
  std::string address_of(const std::string& name_space, const std::string& host);

  void save();  // before anybody relies on new ones
  // Forgets hosts, as "namespace/host", for which `used` is false.
  template <class Used>
  void forget_unless(const Used& used) {
    for (auto at = by_host_.begin(); at != by_host_.end();) {
      if (used(at->first)) {
        ++at;
        continue;
      }
      taken_.erase(at->second);
      at = by_host_.erase(at);
      changed_ = true;
    }
  }

 private:
  const std::filesystem::path file_;
  std::map<std::string, std::string> by_host_;
  std::set<std::string> taken_;
  bool changed_ = false;
};

}  // namespace mlk::local
