// A connection to a server over which mlk itself sends and receives bytes, for what comes after HTTP. TLS,
// certificates, proxies and headers are those of all other requests to the server.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/http/credential.h"
#include "cli/http/server.h"
#include "cli/http/transfer.h"

namespace mlk::http {

// For one thread.
class Dialed {
 public:
  // `request`: its path and query are target() later. `go_on` is called at least once a second while the
  // connection is made; false: gives up.
  Dialed(const ServerAccess& server, CredentialPtr credential, Request request, std::function<bool()> go_on);
  Dialed(const Dialed&) = delete;
  Dialed& operator=(const Dialed&) = delete;

  // Connects, in at most 10 s. Call it first. Returns Failure::Kind::none on success.
  [[nodiscard]] Failure connect();

  std::string target() const;  // path and query of the URL, encoded
  std::vector<std::string> lines()
      const;  // the headers of a request. They may hold secrets: never print them

  enum class Moved { some, none, ended };  // none: wait for the socket first; ended: see failure()
  Moved send(std::string_view bytes, std::size_t& sent);  // repeat it with the same bytes after `none`
  Moved receive(char* place, std::size_t size, std::size_t& received);
  Failure failure() const { return failure_; }
  // Waits until bytes may be received, or also sent, or the time is over.
  enum class For { receiving, both };
  void wait(For what, std::chrono::milliseconds time) const;

 private:
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t);
  Moved after(CURLcode code, std::size_t count);

  const std::function<bool()> go_on_;
  const std::string authority_;
  Peer peer_;          // must outlive transfer_
  Transfer transfer_;  // only its handle and its headers are used
  curl_socket_t socket_ = CURL_SOCKET_BAD;
  bool gave_up_ = false;
  Failure failure_{};
};

}  // namespace mlk::http
