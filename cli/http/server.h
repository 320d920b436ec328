// A server, and how to reach it.
#pragma once

#include <cstddef>
#include <string>

#include "cli/http/request.h"

namespace mlk::http {

struct ServerAccess {
  std::string url{};     // without a trailing slash; valid for parts_of()
  std::string ca_pem{};  // its authorities; empty: those of the system
  bool insecure = false;
  std::string tls_server_name{};  // the name in its certificate; empty: the URL's
  std::string proxy_url{};        // empty: as HTTPS_PROXY and NO_PROXY say
  bool compression = true;
  std::size_t most_held = 512u << 20;  // bytes of all answers in progress
  Headers headers{};                   // for requests without headers; sent over TLS only
};

}  // namespace mlk::http
