// One exchange with the server: an easy handle of libcurl with its settings, and the answer. After
// Loop::add(), everything except `callbacks` and `cancelled` belongs to the loop's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <curl/curl.h>

#include "cli/http/credential.h"
#include "cli/http/failure.h"
#include "cli/http/proxy.h"
#include "cli/http/request.h"
#include "cli/http/server.h"
#include "cli/http/sockets.h"
#include "cli/http/tls.h"

namespace mlk::http {

// What all transfers to one server share. The loop owns the Peer.
struct Peer {
  Sockets sockets;
  Proxy proxy;  // without a URL: there is no proxy
  CertificateProblem certificate;
  bool speaks_http1 = false;  // answers are HTTP/1: a connection carries one transfer at a time
  std::size_t held = 0;       // bytes of all answers in progress
  std::size_t transfers = 0;  // in progress
};

struct Transfer {
  explicit Transfer(Request wanted) : request(std::move(wanted)) {}
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  Request request;
  // For streams. `line` is called with each line. `opened` is called with the status when the head of the
  // answer arrives, but not if the status is 401 or 1xx.
  std::function<void(std::string_view)> line;
  std::function<void(int)> opened;
  // Called once, at the end of the transfer, with an answer or a failure; never after Loop::cancel().
  std::function<void(Response&, const Failure&)> done;

  std::recursive_mutex
      callbacks;  // locked while a callback runs; recursive, since a callback may destroy its own stream
  bool cancelled = false;  // guarded by `callbacks`

  bool is_stream() const { return static_cast<bool>(line); }
  bool twice() const { return request.twice || request.method == "GET"; }
  const curl_slist* headers() const { return headers_; }                 // may hold secrets: never print them
  bool has_http2() const { return !by_http1_ && !peer_->speaks_http1; }  // as far as known

  // Makes a new handle for one attempt: the first one or a retry.
  void prepare(const ServerAccess& server, CredentialPtr credential, Peer& peer);
  void release();
  // Call after the end of the transfer. Returns the failure, or Failure::Kind::none.
  [[nodiscard]] Failure failure(CURLcode code) const;
  // Call after an answer. Reads the warnings and the Retry-After header of the answer.
  void read_headers();
  // Runs `done` if the transfer is not cancelled. If a stream ended without a failure, first delivers the
  // rest of its last line.
  void finish(const Failure& failure);

  CURL* easy = nullptr;
  Response response;
  std::optional<std::chrono::seconds> retry_after;
  std::optional<SteadyTime> deadline;  // of the whole exchange; for a stream: until the head of the answer
  CredentialPtr credential;            // sent with this attempt; null before the first one
  std::optional<SteadyTime> begun;     // when the first attempt began
  int attempts = 0;
  bool under_way = false;            // libcurl has begun to send the request over a connection
  bool sent_again = false;           // after a 401; at most once
  bool is_check = false;             // it only checks whether the server answers
  bool alone = false;                // it opens a new connection
  std::shared_ptr<Socket> socket;    // the socket that it uses; null: unknown
  std::optional<SteadyTime> parked;  // since when it waits for a credential; this wait moves the deadline
  SteadyTime due{};                  // time of the next attempt

 private:
  static int on_start(void* self, char*, char*, int, int local_port);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
  bool receive_body(std::string_view data);
  bool hold(std::string& place, std::string_view data, std::size_t limit, const char* what);
  template <typename Action>
  bool guarded(const Action& action);
  bool receive_lines(std::string_view data);
  void shorten();
  void receive_header(std::string_view header);
  bool deliver(std::string_view text);
  std::string set_other_name(const ServerAccess& server);
  void set_url(const ServerAccess& server);
  void set_headers(const ServerAccess& server);
  void set_tls(const ServerAccess& server);
  void set_network(const ServerAccess& server);
  void set_body();
  void heard();
  void leave_socket();

  Peer* peer_ = nullptr;
  curl_slist* headers_ = nullptr;
  curl_slist* connect_to_ = nullptr;
  std::string partial_;     // an incomplete line
  std::string too_large_;   // for the message: which part exceeded its limit
  bool no_memory_ = false;  // for the received data
  bool by_http1_ = false;   // the request uses HTTP/1 even if the server speaks HTTP/2
  std::size_t held_ = 0;    // the part of Peer::held for this transfer
  std::size_t most_held_ = 0;
  char error_[CURL_ERROR_SIZE] = {};
};

}  // namespace mlk::http
