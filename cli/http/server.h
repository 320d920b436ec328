// A server, and how it is reached.
#pragma once

#include <cstddef>
#include <string>

#include "cli/http/request.h"

namespace mlk::http {

struct ServerAccess {
  std::string url{};     // without a trailing slash; parts_of() can read it
  std::string ca_pem{};  // its authorities; empty: those of the system
  bool insecure = false;
  std::string tls_server_name{};  // the name that its certificate is for; empty: the URL's
  std::string proxy_url{};        // empty: as HTTPS_PROXY and NO_PROXY say
  bool compression = true;
  std::size_t most_held = 512u << 20;  // bytes of all answers that are under way
  Headers headers{};                   // of requests that bring none; sent over TLS only
};

}  // namespace mlk::http
