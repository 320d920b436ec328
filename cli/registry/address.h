// Decides to which addresses mlk connects when a registry names them. Pure.
#pragma once

#include <string>

namespace mlk::registry {

// The URL of a registry: https://host:port if `encrypted`, or else http://host:port. The host of Docker Hub
// differs from its name.
std::string url_of(const std::string& registry, bool encrypted);

// The reason why mlk does not follow `from` to the URL `to`. Either `to` is no URL, or `to` is not encrypted
// although `from` is, or a remote `from` leads to an address of this machine, or `to` is a link-local
// address, where the servers of clouds hand out logins. Empty: mlk may follow.
std::string wrong_with_target(const std::string& from, const std::string& to);

// The URL that a Location header means, relative to `base`; empty if `location` is no URL. A path without a
// host means the same server.
std::string resolve(const std::string& base, const std::string& location);

// Whether credentials for `a` may be sent to `b`. True if `a` and `b` have the same scheme, host and port.
bool is_same_server(const std::string& a, const std::string& b);

}  // namespace mlk::registry
