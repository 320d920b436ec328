// Decides whether requests go directly or through a proxy that the environment names. The rules are those of
// Go's httpproxy, which kubectl and most tools for registries use. libcurl's own rules differ.
#pragma once

#include <map>
#include <string>

namespace mlk::http {

struct Proxy {
  std::string url{};     // for libcurl; may hold a login, so never show it; empty: no proxy
  std::string host{};    // "host:port"
  std::string origin{};  // the setting with its address: the name of a variable, or "proxy-url"
};

using ProxyEnvironment = std::map<std::string, std::string>;

// The variables of this process that decide about proxies, if they are set: HTTPS_PROXY, HTTP_PROXY and
// NO_PROXY in upper and lower case, and REQUEST_METHOD.
ProxyEnvironment proxy_environment();

// The proxy for a request to this http or https URL. A variable in upper case wins over the same variable in
// lower case. ALL_PROXY is ignored, as in Go. Loopback addresses and localhost are always reached directly.
// Pure.
[[nodiscard]] Proxy proxy_for(const std::string& url, const ProxyEnvironment& environment);

// The proxy for a server: the one at `proxy_url`, or if that is empty, the one that the environment names.
[[nodiscard]] Proxy proxy_to(const std::string& url, const std::string& proxy_url);

// The proxy at the address `text`. No proxy if `text` is no address. Pure.
[[nodiscard]] Proxy proxy_of(const std::string& text, const std::string& origin);

}  // namespace mlk::http
