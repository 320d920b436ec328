// The parts of a server's URL.
#pragma once

#include <string>

namespace mlk::kube {

// Of "https://host:port/path". The host of "[::1]" is without its brackets.
struct UrlParts {
  std::string scheme, authority, path, host;
  std::string port;  // the scheme's own when the URL names none
};

UrlParts parts_of(const std::string& url);

// Whether it is this machine by its address: 127.0.0.0/8, ::1, or the name localhost. Another name never is,
// whatever it begins with or leads to.
bool is_loopback(const std::string& host);

}  // namespace mlk::kube
