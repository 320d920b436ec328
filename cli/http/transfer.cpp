#include "cli/http/transfer.h"

#include <algorithm>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <new>
#include <sys/socket.h>

#include "cli/http/handle.h"
#include "cli/http/url.h"
#include "cli/util/text.h"

namespace mlk::http {
namespace {

constexpr std::size_t body_limit = 256u << 20;
constexpr std::size_t line_limit = 16u << 20;
constexpr std::size_t error_body_limit = 64u << 10;  // of the answer that refuses a stream

// While a libcurl older than 8.1 serves one transfer, it may read data for another transfer. If this data
// does not fit into the buffer of the other transfer, libcurl pauses HTTP/2. If this data is also the last
// data of the connection, libcurl never notices the end of the other transfer. So the buffer is far larger
// than a burst.
constexpr long read_buffer = 8l << 20;
constexpr long read_buffer_http1 = 64l << 10;  // megabytes cost time, even if they stay unused
// The size of both buffers of a POST over HTTP/1.1. They are small, because glibc consolidates its whole heap
// whenever 64 KiB are freed at once.
constexpr long post_buffer = 16l << 10;

constexpr std::size_t many_transfers = 8;  // at once

constexpr long longest_idle_seconds = 20;

template <typename Value>
void set(CURL* easy, CURLoption option, Value value) {
  curl_easy_setopt(easy, option, value);
}

// After a laptop has slept, or a NAT has lost the connection, the connection stays half open. TCP must notice
// this within about a minute.
int on_socket(void*, curl_socket_t socket, curlsocktype) {
#ifdef TCP_USER_TIMEOUT
  const unsigned int patience = 30'000;
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
#else
  (void)socket;
#endif
  return CURL_SOCKOPT_OK;
}

curl_blob blob_of(const std::string& text) {
  return {const_cast<char*>(text.data()), text.size(), CURL_BLOB_COPY};
}

// The unquoted text in `299 - "text" ["date"]`; empty if the code is not 299.
std::string warning_text(std::string_view value) {
  if (!value.starts_with("299 ")) return "";
  const std::size_t start = value.find('"');
  if (start == std::string_view::npos) return "";
  std::string out;
  for (std::size_t i = start + 1; i < value.size() && value[i] != '"'; ++i) {
    if (value[i] == '\\' && i + 1 < value.size()) ++i;
    out += value[i];
  }
  return out;
}

}  // namespace

Transfer::~Transfer() { release(); }

void Transfer::heard() {
  if (socket) socket->silence.heard(std::chrono::steady_clock::now());
}

void Transfer::leave_socket() {
  if (socket) socket->silence.end(std::chrono::steady_clock::now());
  socket.reset();
}

void Transfer::release() {
  leave_socket();
  if (easy != nullptr) curl_easy_cleanup(easy);
  easy = nullptr;
  curl_slist_free_all(headers_);
  curl_slist_free_all(connect_to_);
  headers_ = connect_to_ = nullptr;
  if (held_ > 0) peer_->held -= held_;
  held_ = 0;
}

void Transfer::prepare(const ServerAccess& server, CredentialPtr to_send, Peer& peer) {
  release();
  peer_ = &peer;
  most_held_ = server.most_held;
  under_way = false;
  response = Response();
  retry_after.reset();
  partial_.clear();
  too_large_.clear();
  no_memory_ = false;
  error_[0] = '\0';
  credential = std::move(to_send);
  ++attempts;
  if (!begun) begun = std::chrono::steady_clock::now();
  easy = new_easy();
  set_basics(easy, error_);
  set(easy, CURLOPT_PRIVATE, this);
  set(easy, CURLOPT_QUICK_EXIT, 1L);  // an abandoned transfer must not wait for a hanging resolver
  set_url(server);
  set_headers(server);
  set_network(server);
  set_tls(server);
  set_body();
}

// libcurl checks the certificate against the host name in the URL. So the URL gets the name in the
// certificate, and CURLOPT_CONNECT_TO names the real host. Returns this URL.
std::string Transfer::set_other_name(const ServerAccess& server) {
  const UrlParts parts = parts_of(server.url).value();
  connect_to_ = curl_slist_append(nullptr, ("::" + in_url(parts.host) + ":" + parts.port).c_str());
  set(easy, CURLOPT_CONNECT_TO, connect_to_);
  headers_ = curl_slist_append(headers_, ("Host: " + parts.authority).c_str());
  const std::string path = parts.path == "/" ? "" : parts.path;
  return parts.scheme + "://" + server.tls_server_name + ":" + parts.port + path;
}

void Transfer::set_url(const ServerAccess& server) {
  std::string url = server.url;
  if (!server.tls_server_name.empty() && url.starts_with("https:")) url = set_other_name(server);
  url += request.path;
  char separator = request.path.find('?') == std::string::npos ? '?' : '&';
  for (const auto& [name, value] : request.query) {
    url += separator + percent_encode(name) + "=" + percent_encode(value);
    separator = '&';
  }
  set(easy, CURLOPT_URL, url.c_str());
  set(easy, CURLOPT_PATH_AS_IS, 1L);
}

void Transfer::set_headers(const ServerAccess& server) {
  const auto add = [this](const std::string& header) {
    headers_ = curl_slist_append(headers_, header.c_str());
  };
  add("Accept: " + request.accept);
  add("Expect:");  // removes this header, which would cost a round trip before a body
  if (!request.body.empty()) add("Content-Type: " + request.content_type);
  const bool https = server.url.starts_with("https:");
  if (https && !credential->authorization.empty()) add("Authorization: " + credential->authorization);
  if (https || !request.headers.empty()) {
    for (const auto& [name, value] : request.headers.empty() ? server.headers : request.headers)
      add(name + ": " + value);
  }
  set(easy, CURLOPT_HTTPHEADER, headers_);
  // Compression would delay the lines of a stream.
  if (server.compression && !is_stream()) set(easy, CURLOPT_ACCEPT_ENCODING, "gzip");
  set(easy, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  set(easy, CURLOPT_HEADERDATA, this);
  set(easy, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  set(easy, CURLOPT_WRITEDATA, this);
  set(easy, CURLOPT_PREREQFUNCTION, &Transfer::on_start);
  set(easy, CURLOPT_PREREQDATA, this);
}

void Transfer::set_network(const ServerAccess& server) {
  // Requests share a connection if it has streams (HTTP/2). So while a new connection is being set up,
  // libcurl opens no further one, but waits until it knows whether the new one has streams. Without TLS there
  // are never streams, and libcurl would wait for the first answer.
  const bool https = server.url.starts_with("https:");
  // A server needs a sixth less time for many small requests if each has its own connection. So a POST gets
  // its own connection while many transfers are in progress.
  by_http1_ = !https || (request.method == "POST" && peer_->transfers >= many_transfers);
  set(easy, CURLOPT_HTTP_VERSION,
      static_cast<long>(by_http1_ ? CURL_HTTP_VERSION_1_1 : CURL_HTTP_VERSION_2TLS));
  set(easy, CURLOPT_PIPEWAIT, by_http1_ || alone ? 0L : 1L);
  if (alone) {
    set(easy, CURLOPT_FRESH_CONNECT, 1L);
    set(easy, CURLOPT_FORBID_REUSE, 1L);
  }
  peer_->sockets.watch(easy);
  // A connection that was idle for longer may have died without notice, so it is not used again.
  set(easy, CURLOPT_MAXAGE_CONN, longest_idle_seconds);
  const bool is_post = request.method == "POST";
  set(easy, CURLOPT_BUFFERSIZE, !by_http1_ ? read_buffer : is_post ? post_buffer : read_buffer_http1);
  if (by_http1_ && is_post) set(easy, CURLOPT_UPLOAD_BUFFERSIZE, post_buffer);
  set(easy, CURLOPT_CONNECTTIMEOUT_MS, 10'000L);
  set(easy, CURLOPT_TCP_KEEPIDLE, 20L);
  set(easy, CURLOPT_TCP_KEEPINTVL, 5L);
  set(easy, CURLOPT_SOCKOPTFUNCTION, &on_socket);
  set_proxy(easy, peer_->proxy);
}

void Transfer::set_tls(const ServerAccess& server) {
  set_verification(easy, server.insecure, peer_->certificate);
  if (!server.ca_pem.empty()) {
    curl_blob authority = blob_of(server.ca_pem);
    set(easy, CURLOPT_CAINFO_BLOB, &authority);
    set(easy, CURLOPT_CAPATH, nullptr);  // only the authorities in ca_pem
  }
  if (!credential->certificate_pem.empty()) {
    // libcurl shares a connection, and resumes a session, only between transfers with the same certificate.
    curl_blob certificate = blob_of(credential->certificate_pem), key = blob_of(credential->key_pem);
    set(easy, CURLOPT_SSLCERT_BLOB, &certificate);
    set(easy, CURLOPT_SSLCERTTYPE, "PEM");
    set(easy, CURLOPT_SSLKEY_BLOB, &key);
    set(easy, CURLOPT_SSLKEYTYPE, "PEM");
    set(easy, CURLOPT_KEYPASSWD, "");  // otherwise OpenSSL asks for a password on the terminal
  }
}

// libcurl sends a body from CURLOPT_POSTFIELDS in one packet with the head. A body from a callback would
// follow in another packet.
void Transfer::set_body() {
  if (request.method == "GET") return;
  if (!request.body.empty() || request.method == "POST") {
    set(easy, CURLOPT_POST, 1L);
    set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(easy, CURLOPT_POSTFIELDS, request.body.data());
  }
  set(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
}

// When a reused connection breaks, libcurl starts its request again, although the server may have executed
// it. So only a GET may start twice.
int Transfer::on_start(void* self, char*, char*, int, int local_port) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.leave_socket();
  transfer.socket = transfer.peer_->sockets.with_port(local_port);
  if (transfer.socket) transfer.socket->silence.begin(std::chrono::steady_clock::now());
  if (transfer.under_way && transfer.request.method != "GET") return CURL_PREREQFUNC_ABORT;
  transfer.under_way = true;
  return CURL_PREREQFUNC_OK;
}

// No exception may pass through libcurl. If memory is short, the transfer fails.
template <typename Action>
bool Transfer::guarded(const Action& action) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    no_memory_ = true;
    std::string().swap(response.body);
    std::string().swap(partial_);
    return false;
  }
}

std::size_t Transfer::on_header(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.heard();
  const bool taken = transfer.guarded([&] {
    transfer.receive_header(std::string_view(data, size * count));
    return true;
  });
  return taken ? size * count : 0;
}

void Transfer::receive_header(std::string_view header) {
  header = trim(header);
  if (header.starts_with("HTTP/")) {  // each 1xx answer has this line too; the final answer comes last
    if (!by_http1_) peer_->speaks_http1 = header.starts_with("HTTP/1");
    return;
  }
  if (!header.empty()) return;  // read_headers() gets the needed headers from libcurl
  response.status = number_about(easy, CURLINFO_RESPONSE_CODE);
  if (!is_stream() || response.status < 200) return;
  if (response.status == 401) return;  // the request may be sent again
  deadline.reset();
  const std::lock_guard lock(callbacks);
  if (!cancelled && opened) opened(response.status);
}

void Transfer::read_headers() {
  constexpr std::size_t most_warnings = 32;
  curl_header* header = nullptr;
  const auto find = [&](const char* name, std::size_t index) {
    return curl_easy_header(easy, name, index, CURLH_HEADER, -1, &header) == CURLHE_OK;
  };
  for (std::size_t i = 0; i < most_warnings && find("Warning", i); ++i) {
    if (std::string text = warning_text(header->value); !text.empty())
      response.warnings.push_back(std::move(text));
  }
  curl_off_t seconds = 0;  // stays 0 if the header is missing or unusable
  curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
  const bool at_once = find("Retry-After", 0) && std::string_view(header->value) == "0";
  if (seconds > 0 || at_once) retry_after = std::chrono::seconds(seconds);
}

std::size_t Transfer::on_body(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.heard();
  const bool taken =
      transfer.guarded([&] { return transfer.receive_body(std::string_view(data, size * count)); });
  return taken ? size * count : 0;
}

// Appends the data to `place`. Appends nothing and returns false if this answer, or all answers in progress
// together, would exceed a limit.
bool Transfer::hold(std::string& place, std::string_view data, std::size_t limit, const char* what) {
  if (place.size() + data.size() > limit) {
    too_large_ = std::string(what) + "more than " + std::to_string(limit >> 20) + " MiB";
  } else if (peer_->held + data.size() > most_held_) {
    too_large_ = "all answers together more than " + std::to_string(most_held_ >> 20) + " MiB";
  } else {
    place.append(data);
    peer_->held += data.size();
    held_ += data.size();
    return true;
  }
  return false;
}

bool Transfer::receive_body(std::string_view data) {
  if (is_stream() && response.status == 200) return receive_lines(data);
  if (is_stream()) {
    response.body.append(data.substr(0, error_body_limit - std::min(error_body_limit, response.body.size())));
    return true;
  }
  return hold(response.body, data, body_limit, "");
}

bool Transfer::receive_lines(std::string_view data) {
  const std::size_t longest = request.longest_line > 0 ? request.longest_line : line_limit;
  while (!data.empty()) {
    const std::size_t end = data.find('\n');
    const std::string_view part = data.substr(0, end);
    const bool ends = end != std::string_view::npos;
    bool alive;
    if (ends && partial_.empty() && part.size() <= longest) {
      alive = deliver(part);
    } else {
      if (!hold(partial_, part, line_limit, "a line of ")) return false;
      shorten();
      if (!ends) return true;
      alive = deliver(partial_);
      partial_.clear();
      peer_->held -= held_;
      held_ = 0;
    }
    if (!alive) return false;
    data.remove_prefix(end + 1);
  }
  return true;
}

// Removes the middle of the incomplete line if it is too long. Its beginning and its end remain: a line of a
// log begins with its time, and a progress bar ends with its last state.
void Transfer::shorten() {
  constexpr std::string_view mark = "...";
  const std::size_t longest = request.longest_line;
  if (longest == 0 || partial_.size() <= longest) return;
  const std::size_t head = longest / 4, middle = partial_.size() - head - longest / 2;
  partial_.replace(head, middle, mark);
  const std::size_t gone = middle - mark.size();
  held_ -= gone;
  peer_->held -= gone;
}

bool Transfer::deliver(std::string_view text) {
  const std::lock_guard lock(callbacks);
  if (!cancelled) line(text);
  return !cancelled;
}

Failure Transfer::failure(CURLcode code) const {
  if (no_memory_) return {Failure::Kind::other, "not enough memory for the answer"};
  if (!too_large_.empty()) return {Failure::Kind::too_large, too_large_};
  return blame_proxy(failure_of(code, error_, number_about(easy, CURLINFO_OS_ERRNO), peer_->certificate),
                     peer_->proxy, proxy_status(easy));
}

void Transfer::finish(const Failure& failure) {
  const std::lock_guard lock(callbacks);
  if (cancelled) return;
  if (is_stream() && failure.kind == Failure::Kind::none && !partial_.empty()) line(partial_);
  cancelled = true;  // no callback may run after this one
  if (done) done(response, failure);
}

}  // namespace mlk::http
