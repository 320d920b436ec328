// The cluster's own certificate authority, server certificate and token.
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

// Makes new credentials. The certificates are valid for ten years. The key of the authority is discarded.
Credentials make_credentials();

// Reads the credentials from `file`. If the file is missing or damaged, or has a certificate that is not
// valid now, makes new credentials and writes the file with mode 0600.
Credentials load_credentials(const std::filesystem::path& file);

// A kubeconfig with the one context "mlk-local".
std::string kubeconfig_text(const Credentials& credentials, const std::string& server_url);

}  // namespace mlk::local
