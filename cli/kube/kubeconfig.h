// Which server, as whom, in which namespace: kubeconfig files, flags and the in-cluster service account, by client-go's rules.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace mlk::kube {

struct ConfigFlags {
  std::string kubeconfig;  // --kubeconfig: this file alone
  std::string context;     // --context
  std::string name_space;  // -n
};

// Ready to connect with; files are read already. Never print token or keys.
struct Config {
  std::string server;  // URL without a trailing slash
  std::string name_space;
  std::string ca_pem;  // empty: the system's authorities
  std::string client_certificate_pem, client_key_pem;
  std::string token;
  std::string token_file;  // re-read every minute, and after a 401
  std::string tls_server_name;
  std::string proxy_url;
  bool insecure = false;

  // For people: where it came from.
  std::string source;   // file, or "in-cluster service account"
  std::string context;  // name of the context
  std::string user;     // name of the user entry
};

// Throws Error{usage} for a broken file, naming it, and Error{cluster} when there is no configuration at all.
Config load_config(const ConfigFlags& flags);

}  // namespace mlk::kube
