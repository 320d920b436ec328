// The API over HTTPS: TLS, the token, bodies of bounded size, streams.
#pragma once

#include <memory>

#include "cli/local/api/api.h"
#include "cli/local/api/tls.h"

namespace mlk::local {

class HttpServer {
 public:
  // Listens on 127.0.0.1, on `port` if it is free, otherwise on any free port. Throws Error{failure}.
  HttpServer(Api& api, const Credentials& credentials, int port);
  ~HttpServer();  // ends all streams and waits for them
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk::local
