#include "cli/http/proxy.h"

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/http/failure.h"

TEST_SUITE_BEGIN("http/proxy");

using namespace mlk::http;
using Kind = Failure::Kind;

namespace {

constexpr const char* direct = "";

struct WayRow {
  const char* url;
  ProxyEnvironment environment;
  const char* way;  // host and port of the proxy
};

// A row with HTTPS_PROXY=http://p:8080 and NO_PROXY=`none`.
WayRow beside(const char* none, const char* url, const char* way) {
  return {url, {{"HTTPS_PROXY", "http://p:8080"}, {"NO_PROXY", none}}, way};
}

}  // namespace

TEST_CASE("proxy_for() chooses the same proxy as Go's httpproxy") {
  const char* corp = "https://api.corp.example:6443";
  const char* v4 = "https://203.0.113.7:6443";
  const char* v6 = "https://[2001:db8::7]:6443";
  const std::vector<WayRow> rows = {
      {corp, {}, direct},
      {corp, {{"HTTPS_PROXY", "http://p:8080"}}, "p:8080"},
      {corp, {{"https_proxy", "http://p:8080"}}, "p:8080"},
      {corp, {{"HTTPS_PROXY", "http://a:1"}, {"https_proxy", "http://b:2"}}, "a:1"},
      {corp, {{"HTTPS_PROXY", ""}, {"https_proxy", "http://b:2"}}, "b:2"},
      {corp, {{"HTTP_PROXY", "http://p:8080"}}, direct},
      {corp, {{"ALL_PROXY", "http://p:8080"}, {"all_proxy", "http://p:8080"}}, direct},
      {"http://h/", {{"HTTP_PROXY", "http://p:8080"}}, "p:8080"},
      {"http://h/", {{"http_proxy", "http://p:8080"}}, "p:8080"},
      {"http://h/", {{"HTTPS_PROXY", "http://p:8080"}}, direct},
      {"http://h/", {{"HTTP_PROXY", "http://p:8080"}, {"REQUEST_METHOD", "GET"}}, direct},
      {corp, {{"HTTPS_PROXY", "http://p:8080"}, {"REQUEST_METHOD", "GET"}}, "p:8080"},
      // The forms of a proxy.
      {corp, {{"HTTPS_PROXY", "p"}}, "p:80"},
      {corp, {{"HTTPS_PROXY", "p:3128"}}, "p:3128"},
      {corp, {{"HTTPS_PROXY", "https://p"}}, "p:443"},
      {corp, {{"HTTPS_PROXY", "socks5://p"}}, "p:1080"},
      {corp, {{"HTTPS_PROXY", "http://[::1]:3128/"}}, "[::1]:3128"},
      {corp, {{"HTTPS_PROXY", "://"}}, direct},
      // This machine.
      {"https://localhost:6443", {{"HTTPS_PROXY", "http://p:8080"}}, direct},
      {"https://127.1.2.3:6443", {{"HTTPS_PROXY", "http://p:8080"}}, direct},
      {"https://[::1]:6443", {{"HTTPS_PROXY", "http://p:8080"}}, direct},
      {"https://localhost.corp.example", {{"HTTPS_PROXY", "http://p:8080"}}, "p:8080"},
      // NO_PROXY: names.
      {corp, {{"HTTPS_PROXY", "http://p:8080"}, {"no_proxy", "corp.example"}}, direct},
      {corp,
       {{"HTTPS_PROXY", "http://p:8080"}, {"NO_PROXY", "other"}, {"no_proxy", "corp.example"}},
       "p:8080"},
      beside("*", corp, direct),
      beside("other, * ", v4, direct),
      beside("api.corp.example", corp, direct),
      beside("API.Corp.Example", corp, direct),
      beside("corp.example", corp, direct),
      beside("corp.example", "https://corp.example", direct),
      beside(".corp.example", corp, direct),
      beside(".corp.example", "https://corp.example", "p:8080"),
      beside("*.corp.example", corp, direct),
      beside("*.corp.example", "https://corp.example", "p:8080"),
      beside("orp.example", corp, "p:8080"),
      beside("api.*.example", corp, "p:8080"),
      beside("api.corp.example:6443", corp, direct),
      beside("api.corp.example:443", corp, "p:8080"),
      beside(".corp.example:6443", corp, direct),
      beside("api.corp.example:443", "https://api.corp.example", direct),
      beside("x,,corp.example ,y", corp, direct),
      beside("", corp, "p:8080"),
      beside(":6443", corp, "p:8080"),
      // Addresses and networks.
      beside("203.0.113.7", v4, direct),
      beside("203.0.113.7:6443", v4, direct),
      beside("203.0.113.7:443", v4, "p:8080"),
      beside("203.0.113.70", v4, "p:8080"),
      beside(".113.7", v4, "p:8080"),
      beside("203.0.113.0/24", v4, direct),
      beside("203.0.113.6/31", v4, direct),
      beside("203.0.113.4/31", v4, "p:8080"),
      beside("203.0.113.7/32", v4, direct),
      beside("0.0.0.0/0", v4, direct),
      beside("203.0.113.0/33", v4, "p:8080"),
      beside("203.0.113.0/", v4, "p:8080"),
      beside("203.0.113.0/24", corp, "p:8080"),
      beside("::ffff:203.0.113.7", v4, direct),
      beside("2001:db8::7", v6, direct),
      beside("[2001:db8::7]:6443", v6, direct),
      beside("[2001:db8::7]:443", v6, "p:8080"),
      beside("2001:db8::/32", v6, direct),
      beside("2001:db9::/32", v6, "p:8080"),
      beside("::/0", v4, "p:8080"),
      beside("0.0.0.0/0", v6, "p:8080"),
      beside("128.0.0.0/1", v4, direct),
      beside("0.0.0.0/1", v4, "p:8080"),
      beside("203.0.113.128/25", v4, "p:8080"),
      beside("203.0.113.6/32", v4, "p:8080"),
      beside("203.0.113.0/-1", v4, "p:8080"),
      beside("203.0.113.0/24x", v4, "p:8080"),
      beside("203.0.113/24", v4, "p:8080"),
      beside("::ffff:203.0.113.0/120", v4, direct),
      beside("::ffff:203.0.113.0/128", v4, "p:8080"),
      beside("2001:db8::6/127", v6, direct),
      beside("2001:db8::6/128", v6, "p:8080"),
      beside("2001:db8::7/128", v6, direct),
      beside("2001:db8::/129", v6, "p:8080"),
      beside("::/0", v6, direct),
      beside("203.0.113.7", corp, "p:8080"),
      // A name in upper or lower case, a whole domain, and invalid URLs.
      beside("api.corp.example", "https://API.Corp.Example:6443", direct),
      beside("example", corp, direct),
      beside("corp.example.org", corp, "p:8080"),
      {"", {{"HTTPS_PROXY", "http://p:8080"}, {"HTTP_PROXY", "http://p:8080"}}, direct},
      {corp, {{"HTTPS_PROXY", "socks5h://p"}}, "p:1080"},
      {corp, {{"HTTPS_PROXY", "https://p:443"}}, "p:443"},
      {corp, {{"HTTPS_PROXY", "http://p:80"}}, "p:80"},
      {corp, {{"HTTPS_PROXY", "http://p:443"}}, "p:443"},
      {corp, {{"HTTPS_PROXY", "http://[::1]"}}, "[::1]:80"},
  };
  for (const WayRow& row : rows) {
    CAPTURE(row.url);
    std::string variables;
    for (const auto& [name, value] : row.environment) variables += name + "=" + value + " ";
    CAPTURE(variables);
    CHECK(proxy_for(row.url, row.environment).host == row.way);
  }
}

TEST_CASE("proxy_of() gives a URL with login and port for libcurl, and a host without login for messages") {
  const Proxy proxy = proxy_of("socks5://me:p%40ss@h", "HTTPS_PROXY");
  CHECK(proxy.url == "socks5h://me:p%40ss@h:1080");  // the proxy resolves names, as in Go
  CHECK(proxy.host == "h:1080");
  CHECK(proxy.origin == "HTTPS_PROXY");
  CHECK(proxy_of("http://me@h:3128/x", "").url == "http://me@h:3128");
  CHECK(proxy_of("", "").url.empty());
  CHECK(proxy_of("socks5h://h", "").url == "socks5h://h:1080");
  CHECK(proxy_of("https://h", "").url == "https://h:443");
  CHECK(proxy_of("h", "").url == "http://h:80");
  CHECK(proxy_of("http://h:1?x@y", "").url == "http://h:1");
  CHECK(proxy_of("http://h:1/x@y", "").url == "http://h:1");
  CHECK(proxy_of("http://me:p@[::1]:3128", "").url == "http://me:p@[::1]:3128");
}

TEST_CASE("blame_proxy() names the proxy in a failure of the proxy, and does not change other failures") {
  const Proxy proxy = proxy_of("http://me:secret@h:1", "HTTPS_PROXY");
  const auto told = [&](Failure failure, long answered) {
    return blame_proxy(std::move(failure), proxy, answered);
  };
  const std::string name = "the proxy h:1 of HTTPS_PROXY ";
  CHECK(told({Kind::refused, ""}, 0).detail == name + "refuses connections");
  CHECK(told({Kind::refused, ""}, 0).kind == Kind::proxy);
  CHECK(told({Kind::refused, ""}, 0).hint == "check HTTPS_PROXY and NO_PROXY");
  CHECK(told({Kind::no_route, "no route to host"}, 0).detail == name + "cannot be reached: no route to host");
  CHECK(told({Kind::proxy, "no"}, 0).detail == name + "does not let us through: no");
  CHECK(told({Kind::broken, "x"}, 403).detail == name + "does not let us through (it answers 403)");
  CHECK(told({Kind::broken, "x"}, 403).for_good);
  CHECK(told({Kind::broken, "x"}, 503).detail == name + "does not reach the server (it answers 503)");
  CHECK(told({Kind::broken, "x"}, 407).detail == name + "wants a login (it answers 407)");
  CHECK(told({Kind::broken, "x"}, 407).hint == "write it as http://USER:PASSWORD@h:1 into HTTPS_PROXY");
  CHECK(told({Kind::timed_out, "no connection within 10 s"}, 0).detail ==
        "no connection within 10 s through the proxy h:1 of HTTPS_PROXY");
  for (const auto& [status, words] :
       std::vector<std::pair<long, std::string>>{{300, "does not let us through (it answers 300)"},
                                                 {499, "does not let us through (it answers 499)"},
                                                 {500, "does not reach the server (it answers 500)"}})
    CHECK(told({Kind::broken, "x"}, status).detail == name + words);
  for (const Kind kind : {Kind::refused, Kind::no_route, Kind::proxy}) {
    CHECK(told({kind, "x"}, 0).kind == Kind::proxy);
    CHECK(told({kind, "x"}, 0).for_good);
    CHECK(told({kind, "x"}, 299).kind == Kind::proxy);
  }
  CHECK(told({Kind::broken, "x"}, 407).kind == Kind::proxy);
  CHECK(told({Kind::broken, "x"}, 407).for_good);
  CHECK(told({Kind::timed_out, "x"}, 0).kind == Kind::timed_out);
  CHECK_FALSE(told({Kind::timed_out, "x"}, 0).for_good);
  CHECK(told({Kind::broken, "x"}, 299).kind == Kind::broken);
  CHECK(told({}, 407).kind == Kind::none);
  CHECK(blame_proxy({Kind::broken, "x"}, {}, 407).kind == Kind::broken);
  // Failures of the server behind the proxy, and failures without a proxy.
  CHECK(told({Kind::broken, "x"}, 200).kind == Kind::broken);
  CHECK(told({Kind::untrusted, "x"}, 200).detail == "x");
  CHECK(told({}, 200).kind == Kind::none);
  CHECK(blame_proxy({Kind::refused, ""}, {}, 0).kind == Kind::refused);
  CHECK(blame_proxy({Kind::refused, ""}, proxy_of("http://h:1", "proxy-url"), 0).hint == "check proxy-url");
}

TEST_CASE(
    "blame_proxy() blames a proxy for unusable authorities if the proxy uses TLS and has not answered") {
  const auto told = [](const std::string& proxy, long answered) {
    return blame_proxy({Kind::authority, "no file"}, proxy_of(proxy, "HTTPS_PROXY"), answered);
  };
  CHECK(told("https://h:1", 0).kind == Kind::proxy);
  CHECK(told("https://h:1", 0).detail ==
        "the proxy h:1 of HTTPS_PROXY cannot be trusted without this machine's certificate authorities: no "
        "file");
  CHECK(told("https://h:1", 200).kind == Kind::authority);
  CHECK(told("http://h:1", 0).kind == Kind::authority);
  CHECK(told("http://h:1", 200).detail == "no file");
}

TEST_CASE("proxy_environment() returns the proxy variables that are set, except ALL_PROXY") {
  const std::vector<const char*> names{"HTTPS_PROXY", "https_proxy",    "HTTP_PROXY",
                                       "http_proxy",  "NO_PROXY",       "no_proxy",
                                       "ALL_PROXY",   "REQUEST_METHOD", "all_proxy"};
  std::vector<std::optional<std::string>> before;
  for (const char* name : names) {
    const char* value = std::getenv(name);
    before.push_back(value == nullptr ? std::nullopt : std::optional<std::string>(value));
    ::setenv(name, name, 1);
  }
  ::unsetenv("no_proxy");
  const ProxyEnvironment found = proxy_environment();
  for (std::size_t i = 0; i < names.size(); ++i)
    before[i] ? ::setenv(names[i], before[i]->c_str(), 1) : ::unsetenv(names[i]);
  CHECK(found == ProxyEnvironment{{"HTTPS_PROXY", "HTTPS_PROXY"},
                                  {"https_proxy", "https_proxy"},
                                  {"HTTP_PROXY", "HTTP_PROXY"},
                                  {"http_proxy", "http_proxy"},
                                  {"NO_PROXY", "NO_PROXY"},
                                  {"REQUEST_METHOD", "REQUEST_METHOD"}});
}
