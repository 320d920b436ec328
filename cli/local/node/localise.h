// A pod as a local process: peer names become addresses, mount paths become folders. Pure.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk::local {

// Where the pod HOST of a service listens instead of `port`, which another program may have taken.
using PortOf = std::function<int(const std::string& service, const std::string& host, int port)>;

// What surrounds the pod.
struct Surroundings {
  std::filesystem::path pod_folder;
  std::filesystem::path claims;  // <namespace>/<claim>
  std::map<std::string, std::string>
      volumes;                     // --volume: name of a claim, or of a volume of the pod -> folder
  std::set<std::string> services;  // headless services in the pod's namespace
  std::vector<std::pair<std::string, std::string>>
      inherited;  // environment that every pod gets, PATH for one
  std::function<const nlohmann::json*(const std::string& plural, const std::string& name)>
      find;  // ConfigMap or Secret, or null
  std::function<std::string(const std::string& host)> address_of;
  PortOf port_of;
};

struct LocalFile {
  std::filesystem::path path;
  std::string content;
  unsigned mode;
};

struct Process {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> env;
  std::filesystem::path working_folder;  // of the container, mapped; the pod's folder when it names none
  std::vector<LocalFile> files;
  std::vector<std::filesystem::path> folders;  // to be created
  std::filesystem::path termination_message;
  std::string address;
};

// Why a pod cannot start as it is; the kubelet's reason for its container to wait. It may change: a ConfigMap
// may come.
class Obstacle : public std::runtime_error {
 public:
  Obstacle(std::string reason, const std::string& message)
      : std::runtime_error(message), reason_(std::move(reason)) {}
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

// Throws Obstacle.
Process localise(const nlohmann::json& pod, const Surroundings& around);

// "$(NAME)" replaced where `env` has it, "$$" becomes "$"; as Kubernetes does it in command, args and env.
std::string expand_variables(const std::string& text, const std::map<std::string, std::string>& env);

// HOST.SERVICE, HOST.SERVICE.NAMESPACE, ... .svc and ... .svc.cluster.local replaced by address_of(HOST), for
// HOST-<number>; a port that follows, as in HOST.SERVICE:7070, replaced by port_of(SERVICE, HOST, 7070).
std::string replace_peers(const std::string& text, const std::string& name_space,
                          const std::set<std::string>& services,
                          const std::function<std::string(const std::string&)>& address_of,
                          const PortOf& port_of = nullptr);

// Paths at or below the mounts replaced, the longest mount first: whole path components only.
std::string replace_paths(const std::string& text, const std::map<std::string, std::string>& mounts);

}  // namespace mlk::local
