// One exchange with the server: an easy handle of libcurl, set up for it, and what comes back.
// Everything but `callbacks` and `cancelled` belongs to the loop's thread once the transfer has been handed
// over.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <curl/curl.h>

#include "cli/http/credential.h"
#include "cli/http/failure.h"
#include "cli/http/request.h"
#include "cli/http/server.h"
#include "cli/http/tls.h"

namespace mlk::http {

// What transfers find out about the server, for the loop that keeps it.
struct Peer {
  CertificateProblem certificate;
  bool speaks_http1 = false;  // it has answered by HTTP/1: a connection carries one transfer at a time
  std::size_t held = 0;       // bytes of all answers under way
};

struct Transfer {
  explicit Transfer(Request wanted) : request(std::move(wanted)) {}
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  Request request;
  // Of streams: lines as they come; the head of the answer has come.
  std::function<void(std::string_view)> line;
  std::function<void(int)> opened;
  // Once, at the end: an answer, or a failure.
  std::function<void(Response&, const Failure&)> done;

  std::recursive_mutex
      callbacks;           // held while one of the above runs; recursive: a callback may drop its own stream
  bool cancelled = false;  // under it

  bool is_stream() const { return static_cast<bool>(line); }

  // Makes a new handle: at the start, and for every further attempt.
  void prepare(const ServerAccess& server, CredentialPtr credential, Peer& peer);
  void release();
  // After the end: what went wrong, if anything did.
  [[nodiscard]] Failure failure(CURLcode code) const;
  // After an answer: takes its warnings, and when it wants to be asked again.
  void read_headers();
  // Runs `done` unless cancelled; the rest of a stream's last line goes out first when the end was in good
  // order.
  void finish(const Failure& failure);

  CURL* easy = nullptr;
  Response response;
  std::optional<std::chrono::seconds> retry_after;
  std::optional<SteadyTime> deadline;  // of the whole exchange; of streams: until the head of the answer
  CredentialPtr credential;            // sent with this attempt; null before the first one
  int attempts = 0;
  bool under_way = false;            // it has a connection
  bool sent_again = false;           // after a 401
  std::optional<SteadyTime> parked;  // it waits for a credential since then, and its deadline with it
  SteadyTime due{};                  // when to try again

 private:
  static int on_start(void* self, char*, char*, int, int);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_read(char* buffer, std::size_t size, std::size_t count, void* self);
  bool take_body(std::string_view data);
  bool hold(std::string& place, std::string_view data, std::size_t limit, const char* what);
  template <typename Action>
  bool guarded(const Action& action);
  bool take_lines(std::string_view data);
  void take_header(std::string_view header);
  bool deliver(std::string_view text);
  std::string set_other_name(const ServerAccess& server);
  void set_url(const ServerAccess& server);
  void set_headers(const ServerAccess& server);
  void set_tls(const ServerAccess& server);
  void set_network(const ServerAccess& server);
  void set_body();

  Peer* peer_ = nullptr;
  curl_slist* headers_ = nullptr;
  curl_slist* connect_to_ = nullptr;
  std::string partial_;     // of a line whose end has not come
  std::string too_large_;   // what was over its limit
  bool no_memory_ = false;  // for what came
  std::size_t held_ = 0;    // our part of Peer::held
  std::size_t most_held_ = 0;
  std::size_t sent_ = 0;  // of the request's body
  char error_[CURL_ERROR_SIZE] = {};
};

}  // namespace mlk::http
