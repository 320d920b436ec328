// Decides to which addresses mlk connects when a registry names them. Pure.
#pragma once

#include <string>

namespace mlk::registry {

// The URL of a registry: https://host:port if `encrypted`, or else http://host:port. The host of Docker Hub
// differs from its name.
std::string url_of(const std::string& registry, bool encrypted);

// The reason why mlk does not go from the URL `from` to the URL `to`, which an answer names; empty: mlk may
// go. The reasons: `to` is no URL of http or https, or is not encrypted although `from` is, or leads from a
// remote host to this machine, or leads to the link-local address of another host, where the servers of
// clouds hand out logins. 0.0.0.0, :: and IPv4 addresses that are written as IPv6 addresses count as
// link-local.
std::string wrong_with_target(const std::string& from, const std::string& to);

// Returns the whole URL for `location`, the text of a header Location or Link in an answer from the URL
// `base`. If `location` is a path such as /v2/x, the server is that of `base`. Empty if `location` is no URL.
std::string resolve(const std::string& base, const std::string& location);

// Whether credentials for `a` may be sent to `b`. True if `a` and `b` have the same scheme, host and port.
bool is_same_server(const std::string& a, const std::string& b);

}  // namespace mlk::registry
