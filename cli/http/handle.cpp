#include "cli/http/handle.h"

#include <mutex>

#include "cli/util/error.h"

namespace mlk::http {
namespace {

template <typename Handle>
Handle* new_handle(Handle* (*make)()) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  Handle* const out = make();
  if (out == nullptr) throw Error(ExitCode::failure, "libcurl gives no handle: out of memory");
  return out;
}

}  // namespace

CURL* new_easy() { return new_handle(&curl_easy_init); }
CURLM* new_multi() { return new_handle(&curl_multi_init); }

void set_basics(CURL* easy, char* error) {
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "mlk");
  // The headers of the answer to CONNECT come from the proxy, not from the server.
  curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
}

void set_proxy(CURL* easy, const Proxy& proxy) {
  curl_easy_setopt(easy, CURLOPT_PROXY, proxy.url.c_str());
  curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
}

int number_about(CURL* easy, CURLINFO what) {
  long number = 0;
  curl_easy_getinfo(easy, what, &number);
  return static_cast<int>(number);
}

int proxy_status(CURL* easy) { return number_about(easy, CURLINFO_HTTP_CONNECTCODE); }

}  // namespace mlk::http
