#include "cli/http/connection.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "cli/http/connection_pool.h"
#include "cli/http/handle.h"
#include "cli/http/proxy.h"
#include "cli/http/tls.h"
#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk::http {

namespace {
constexpr std::size_t most_header_bytes = 256 << 10;
constexpr long connect_seconds = 20;
constexpr long least_per_second = 1024;  // bytes; a slower server would hold its client for hours
}  // namespace

struct Connection::State {
  const ConnectionOptions options;
  const ProxyEnvironment environment = proxy_environment();
  Proxy proxy{};
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  CertificateProblem certificate{};
  char error[CURL_ERROR_SIZE] = {};
  // The state of the exchange in progress.
  const Call* call = nullptr;
  Reply reply{};
  std::size_t header_bytes = 0;
  std::uint64_t reported = 0;
  std::optional<std::size_t> exceeded{};  // the limit in bytes that the head or the body has exceeded
  bool ended = false, has_begun = false, is_under_way = false;
  std::exception_ptr thrown{};

  bool is_good() const { return reply.status >= 200 && reply.status < 300; }

  bool is_within(std::size_t most, std::size_t bytes) {
    if (bytes > most) exceeded = most;
    return bytes <= most;
  }

  bool receive_header(std::string_view line) {
    header_bytes += line.size();
    if (!is_within(most_header_bytes, header_bytes)) return false;
    line = trim(line);
    if (line.starts_with("HTTP/")) {  // a new answer begins, perhaps after a 1xx answer
      reply.headers.clear();
      reply.status = number_about(easy, CURLINFO_RESPONSE_CODE);
      return true;
    }
    const std::size_t colon = line.find(':');
    if (colon == line.npos) return true;
    reply.headers.emplace_back(lower_case(std::string(line.substr(0, colon))), trim(line.substr(colon + 1)));
    return true;
  }

  bool receive_body(std::string_view part) {
    if (call->take && is_good()) {
      if (call->begun && !has_begun) call->begun(reply.status);
      has_begun = true;
      return call->take(part) || !(ended = true);
    }
    if (!is_within(call->most_bytes, reply.body.size() + part.size())) return false;
    reply.body.append(part);
    return true;
  }

  // Exceptions must not pass through libcurl.
  template <typename Action>
  bool guarded(const Action& action) {
    try {
      return action();
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  }

  // When a reused connection ends without an answer, libcurl starts the request again. mlk forbids this for a
  // request with a body, because the server may have received the body already.
  static int on_start(void* self, char*, char*, int, int) {
    auto& state = *static_cast<State*>(self);
    const bool again = std::exchange(state.is_under_way, true);
    return again && !state.call->body.empty() ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
  }

  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self) {
    auto& state = *static_cast<State*>(self);
    return state.guarded([&] { return state.receive_header({data, size * count}); }) ? size * count : 0;
  }

  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self) {
    auto& state = *static_cast<State*>(self);
    return state.guarded([&] { return state.receive_body({data, size * count}); }) ? size * count : 0;
  }

  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t sent) {
    auto& state = *static_cast<State*>(self);
    return state.guarded(
               [&] { return state.moves(static_cast<std::uint64_t>(std::max<curl_off_t>(sent, 0))); })
               ? 0
               : 1;
  }

  bool moves(std::uint64_t sent) {
    if (call->sent && sent > reported) call->sent(sent - reported);
    reported = std::max(reported, sent);
    if (options.go_on && !options.go_on()) ended = true;
    return !ended;
  }

  template <typename Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(easy, option, value);
  }

  void begin(const Call& next) {
    curl_easy_reset(easy);  // the handle keeps its connections
    call = &next;
    reply = {};
    header_bytes = 0;
    reported = 0;
    exceeded.reset();
    ended = has_begun = is_under_way = false;
    thrown = nullptr;
    error[0] = '\0';
    certificate = {};
    set_basics(easy, error);
    set(CURLOPT_URL, next.url.c_str());
  }

  void set_network() {
    // Exchanges share a connection if it has streams (HTTP/2). So while a new connection is being set up,
    // libcurl opens no further one, but waits until it knows whether the new one has streams. Without TLS
    // there are never streams, and libcurl would wait for the first answer.
    const bool may_be_stream = options.pool != nullptr && call->url.starts_with("https:");
    set(CURLOPT_HTTP_VERSION,
        static_cast<long>(may_be_stream ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
    set(CURLOPT_PIPEWAIT, may_be_stream ? 1L : 0L);
    // While a libcurl older than 8.1 serves one stream, it may also read data for another stream of the
    // connection. This data has to fit into the buffer of that other stream. The upload buffer stays small,
    // because libcurl 7.88 corrupts memory with a large upload buffer.
    constexpr long buffer = 256L << 10, large_buffer = 2L << 20;
    set(CURLOPT_BUFFERSIZE, may_be_stream ? large_buffer : buffer);
    set(CURLOPT_UPLOAD_BUFFERSIZE, buffer);
    set(CURLOPT_CONNECTTIMEOUT, connect_seconds);
    set(CURLOPT_LOW_SPEED_LIMIT, least_per_second);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.patience.count()));
    proxy = proxy_for(call->url, environment);
    set_proxy(easy, proxy);
  }

  void set_trust() {
    set_verification(easy, options.insecure, certificate);
    if (options.ca_pem.empty()) return;
    curl_blob authorities{const_cast<char*>(options.ca_pem.data()), options.ca_pem.size(), CURL_BLOB_NOCOPY};
    set(CURLOPT_CAINFO_BLOB, &authorities);  // in addition to the folder of the system's authorities
  }

  void set_callbacks() {
    set(CURLOPT_PREREQFUNCTION, &State::on_start);
    set(CURLOPT_PREREQDATA, this);
    set(CURLOPT_HEADERFUNCTION, &State::on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &State::on_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &State::on_progress);
    set(CURLOPT_XFERINFODATA, this);
  }

  void set_request() {
    if (call->method == "HEAD") {
      set(CURLOPT_NOBODY, 1L);
    } else if (call->method != "GET") {
      set(CURLOPT_POST, 1L);
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call->body.size()));
      set(CURLOPT_POSTFIELDS, call->body.data() == nullptr ? "" : call->body.data());
      set(CURLOPT_CUSTOMREQUEST, call->method.c_str());
    }
    curl_slist_free_all(headers);
    // A name without a value tells libcurl not to send this header. A server that does not know the header
    // Expect would delay the request by one second. Without a caller's Content-Type, libcurl would add a type
    // of its own to a POST.
    headers = curl_slist_append(nullptr, "Expect:");
    bool has_type = false;
    for (const auto& [name, value] : call->headers) {
      headers = curl_slist_append(headers, (name + ": " + value).c_str());
      has_type = has_type || name == "Content-Type";
    }
    if (!has_type) headers = curl_slist_append(headers, "Content-Type:");
    set(CURLOPT_HTTPHEADER, headers);
  }

  Failure failure_after(CURLcode code) const {
    if (ended) return {Failure::Kind::closed, "it was ended"};
    if (exceeded) return {Failure::Kind::too_large, "more than " + human_size(*exceeded), "", true};
    if (code == CURLE_OPERATION_TIMEDOUT)
      return blame_proxy(
          {Failure::Kind::timed_out, "no connection within 20 s, or almost no data for a minute"}, proxy,
          proxy_status(easy));
    return blame_proxy(failure_of(code, error, number_about(easy, CURLINFO_OS_ERRNO), certificate), proxy,
                       proxy_status(easy));
  }
};

std::string Reply::header(std::string_view name) const {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [&](const auto& each) { return each.first == name; });
  return found == headers.end() ? "" : found->second;
}

Connection::Connection(ConnectionOptions options)
    : state_(std::make_unique<State>(State{.options = std::move(options)})) {
  state_->easy = new_easy();
}

Connection::~Connection() {
  curl_easy_cleanup(state_->easy);
  curl_slist_free_all(state_->headers);
}

Reply Connection::exchange(const Call& call) {
  State& state = *state_;
  state.begin(call);
  state.set_network();
  state.set_trust();
  state.set_callbacks();
  state.set_request();
  const CURLcode code =
      state.options.pool ? state.options.pool->perform(state.easy) : curl_easy_perform(state.easy);
  if (code == CURLE_OK && call.sent && call.body.size() > state.reported)
    call.sent(call.body.size() - state.reported);
  if (state.thrown) std::rethrow_exception(state.thrown);
  state.reply.failure = state.failure_after(code);
  return std::move(state.reply);
}

}  // namespace mlk::http
