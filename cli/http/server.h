// A server, and how to reach it.
#pragma once

#include <cstddef>
#include <string>

#include "cli/http/repeat.h"
#include "cli/http/request.h"
#include "cli/http/silence.h"

namespace mlk::http {

struct ServerAccess {
  std::string url{};     // without a trailing slash; valid for parts_of()
  std::string ca_pem{};  // the only trusted authorities; empty: those of the system
  bool insecure = false;
  std::string tls_server_name{};  // the name in the server's certificate; empty: the URL's host
  std::string proxy_url{};        // empty: as proxy_for() says
  bool compression = true;
  std::size_t most_held = 512u << 20;  // limit for the bytes of all answers in progress together
  Headers headers{};                   // for requests without headers of their own; sent over TLS only
  std::string check_path{};            // a path with a small answer, to check connections; empty: no checks
  SilenceTimes silence{};
  std::chrono::milliseconds longest_trying = http::longest_trying;  // of repeat.h; other values are for tests
};

}  // namespace mlk::http
