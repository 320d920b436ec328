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

void set_proxy(CURL* easy, const Proxy& proxy) {
  curl_easy_setopt(easy, CURLOPT_PROXY, proxy.url.c_str());
  curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
}

long proxy_status(CURL* easy) {
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &status);
  return status;
}

}  // namespace mlk::http
