// Checks that a request uses the chosen proxy, even if the environment names another proxy for libcurl.
#include "cli/http/handle.h"

#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("http/handle");

namespace {

// The status of the answer to a HEAD request; -1 if there was no answer.
long status_of(const std::string& url, const mlk::http::Proxy& proxy) {
  CURL* easy = mlk::http::new_easy();
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  mlk::http::set_proxy(easy, proxy);
  long status = -1;
  if (curl_easy_perform(easy) == CURLE_OK) curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_cleanup(easy);
  return status;
}

}  // namespace

TEST_CASE("a handle ignores the proxy variables of the environment") {
  FakeServer server;
  server.http->Get(".*",
                   [](const httplib::Request&, httplib::Response& response) { answer(response, 204, ""); });
  const std::string url = server.listen();
  for (const char* name : {"no_proxy", "NO_PROXY"}) {
    ::setenv(name, "*", 1);
    CHECK(status_of("http://no-such-host.invalid/", {.url = url}) == 204);
    ::unsetenv(name);
  }
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  CHECK(status_of(url, {}) == 204);
  ::unsetenv("http_proxy");
}
