// Turns a pod into a local process: peer names become addresses, mount paths become folders. Pure.
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

// The port on which the pod HOST of a service listens instead of `port`, since another program may use
// `port`.
using PortOf = std::function<int(const std::string& service, const std::string& host, int port)>;

// What determines, besides the pod itself, how the pod runs on this machine.
struct PodContext {
  std::filesystem::path pod_folder;
  std::filesystem::path claims;  // <namespace>/<claim>
  std::map<std::string, std::string>
      volumes;                     // --volume: name of a claim, or of a volume of the pod -> folder
  std::set<std::string> services;  // headless services in the pod's namespace
  std::vector<std::pair<std::string, std::string>>
      inherited;  // environment that every pod gets, for example PATH
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
  std::filesystem::path working_folder;  // workingDir as a local path; by default the pod's folder
  std::vector<LocalFile> files;
  std::vector<std::filesystem::path> folders;  // to be created
  std::filesystem::path termination_message;
  std::string address;
};

// Says why a pod cannot start now. The kubelet reports this as the reason of the waiting
// container. The pod may start later, for example when a missing ConfigMap is created.
class WaitingReason : public std::runtime_error {
 public:
  WaitingReason(std::string reason, const std::string& message)
      : std::runtime_error(message), reason_(std::move(reason)) {}
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

// Calls replace_peers() and replace_paths() for the pod's variables, command and arguments. The port in a
// variable X_PORT is replaced, too, if another variable X_..., such as X_ADDR, names the peer that has this
// port. Values from Secrets stay unchanged in variables. Throws WaitingReason.
Process localise(const nlohmann::json& pod, const PodContext& around);

// Replaces "$(NAME)" by the value of NAME if `env` has NAME, and "$$" by "$", as Kubernetes does in command,
// args and env.
std::string expand_variables(const std::string& text, const std::map<std::string, std::string>& env);

// Replaces HOST.SERVICE, HOST.SERVICE.NAMESPACE, ... .svc and ... .svc.cluster.local by address_of(HOST), if
// HOST ends with -<number> and `services` has SERVICE. A port that follows, as in HOST.SERVICE:7070, is
// replaced by port_of(SERVICE, HOST, 7070).
std::string replace_peers(const std::string& text, const std::string& name_space,
                          const std::set<std::string>& services,
                          const std::function<std::string(const std::string&)>& address_of,
                          const PortOf& port_of = nullptr);

// Replaces each mount path, alone or at the beginning of a longer path, by its folder. If several mount paths
// fit, the longest one counts. Only whole components of a path are compared.
std::string replace_paths(const std::string& text, const std::map<std::string, std::string>& mounts);

}  // namespace mlk::local
