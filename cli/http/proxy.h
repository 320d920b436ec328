// Which way requests go: directly, or through a proxy that the environment names, by the rules of Go's
// httpproxy, which kubectl and most tools for registries follow. libcurl's own rules differ.
#pragma once

#include <map>
#include <string>

namespace mlk::http {

struct Proxy {
  std::string url{};     // for libcurl, perhaps with a login: not for people; empty: no proxy
  std::string host{};    // "host:port"
  std::string origin{};  // what names it: "HTTPS_PROXY", or "proxy-url" of a kubeconfig
};

using ProxyEnvironment = std::map<std::string, std::string>;

// HTTPS_PROXY, HTTP_PROXY, NO_PROXY in upper and lower case, where they are set; REQUEST_METHOD.
ProxyEnvironment proxy_environment();

// For a request to this http or https URL. A variable in upper case wins. ALL_PROXY counts
// for nothing, as there. This machine is always reached directly. Pure.
[[nodiscard]] Proxy proxy_for(const std::string& url, const ProxyEnvironment& environment);

// The proxy that `text` means; none if it is no address of one. Pure.
[[nodiscard]] Proxy proxy_of(const std::string& text, const std::string& origin);

}  // namespace mlk::http
