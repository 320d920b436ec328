// Parses URLs of servers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mlk::http {

// The parts of "https://host:port/path".
struct UrlParts {
  std::string scheme;      // lower case
  std::string authority;   // "host" or "host:port", as in the URL
  std::string host;        // without the brackets of "[::1]"
  std::string port;        // the scheme's default if the URL has none
  std::string path;        // "/" if the URL has none
  bool has_login = false;  // a user name or a password
};

// nullopt if the text is not a URL with a scheme and a host. Pure.
[[nodiscard]] std::optional<UrlParts> parts_of(const std::string& url);

// The host as URLs write it: an IPv6 address in brackets. Pure.
std::string in_url(const std::string& host);

// Whether the host is a loopback address (127.0.0.0/8 or ::1) or the name localhost. False for any other
// name, even if it begins with localhost or resolves to a loopback address.
bool is_loopback(const std::string& host);

std::string percent_encode(std::string_view text);  // all but unreserved characters (RFC 3986)

}  // namespace mlk::http
