// Finds the server, the user and the namespace from kubeconfig files, flags and the in-cluster service
// account, by client-go's rules.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/http/repeat.h"
#include "cli/http/silence.h"
#include "cli/kube/login/exec_plugin.h"

namespace mlk::kube {

struct ConfigFlags {
  std::string kubeconfig;  // --kubeconfig: this file alone
  std::string context;     // --context
  std::string name_space;  // -n; empty, or a valid label: the parser of the flags has checked it
};

// The source of the header Authorization.
enum class Login { none, token, token_file, service_account, oidc, basic, exec };

// The settings of a connection; all files are already read. Never print the token or the keys.
struct Config {
  std::string server;  // URL without a trailing slash
  std::string name_space;
  std::string ca_pem;  // empty: the system's authorities
  std::string client_certificate_pem, client_key_pem;
  Login login = Login::none;
  std::string token;               // for oidc: the id-token, which may be empty or expired
  std::string token_file;          // re-read every minute, and after a 401
  std::optional<ExecPlugin> exec;  // the credential plugin; set only if the entry has no credentials
  std::string username, password;
  std::vector<std::pair<std::string, std::string>> impersonation;  // headers: Impersonate-User ...
  std::string tls_server_name;
  std::string proxy_url;
  bool insecure = false;
  bool compression = true;
  std::size_t most_held = 512u << 20;  // limit for the bytes of all unfinished answers together
  http::SilenceTimes silence{};        // only tests set this field and the next one
  std::chrono::milliseconds longest_trying = http::longest_trying;

  // For people: the source of this configuration.
  std::string source;       // file, or "in-cluster service account"
  std::string context;      // name of the context
  std::string user;         // name of the user entry
  std::string user_source;  // the file that defines it
};

// The environment variables and the folder that load_config() reads besides the flags. places_of_process()
// returns those of this process.
struct ConfigPlaces {
  std::string kubeconfig_variable;  // $KUBECONFIG
  std::string home;                 // $HOME
  std::string service_host, service_port,
      pod_namespace;  // $KUBERNETES_SERVICE_HOST, ..._PORT, $POD_NAMESPACE
  std::filesystem::path service_account = "/var/run/secrets/kubernetes.io/serviceaccount";
};
ConfigPlaces places_of_process();

// Throws Error{usage} with the name of the file if a file is broken, and Error{cluster} if there is no
// configuration at all.
Config load_config(const ConfigFlags& flags, const ConfigPlaces& places = places_of_process());

}  // namespace mlk::kube
