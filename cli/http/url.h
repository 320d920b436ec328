// URLs of servers, and what stands in them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mlk::http {

// Of "https://host:port/path".
struct UrlParts {
  std::string scheme;      // lower case
  std::string authority;   // "host" or "host:port", as it stands in the URL
  std::string host;        // that of "[::1]" is without its brackets
  std::string port;        // the scheme's own when the URL names none
  std::string path;        // "/" when the URL names none
  bool has_login = false;  // a user name or a password
};

// nullopt for what is no URL with a scheme and a host. Pure.
[[nodiscard]] std::optional<UrlParts> parts_of(const std::string& url);

// Whether it is this machine by its address: 127.0.0.0/8, ::1, or the name localhost. Another name never is,
// whatever it begins with or leads to.
bool is_loopback(const std::string& host);

std::string percent_encode(std::string_view text);  // all but unreserved characters (RFC 3986)

}  // namespace mlk::http
