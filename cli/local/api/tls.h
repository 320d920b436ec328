// A certificate authority, a server certificate and a token of the cluster's own.
#pragma once

#include <filesystem>
#include <string>

namespace mlk::local {

struct Credentials {
  std::string ca;           // PEM
  std::string certificate;  // of the server, for 127.0.0.1 and localhost, PEM
  std::string key;          // of the certificate, PEM
  std::string token;        // bearer token of the one user
};

// New ones: the certificates are good for ten years. The key of the authority is thrown away.
Credentials make_credentials();

// Those in `file` when there are, else new ones, written there with mode 0600.
Credentials load_credentials(const std::filesystem::path& file);

// A kubeconfig with the one context "mlk-local".
std::string kubeconfig_text(const Credentials& credentials, const std::string& server_url);

}  // namespace mlk::local
