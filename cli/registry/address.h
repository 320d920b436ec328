// Which addresses mlk goes to when a registry names them. Pure.
#pragma once

#include <string>

namespace mlk::registry {

// "https://host:port" of a registry's name; that of Docker Hub has another host.
std::string url_of(const std::string& registry, bool encrypted);

// Why mlk does not go from `from` to the URL `to`: it is not encrypted although `from` is, or leads from
// elsewhere to an address of this machine, or of its link, where the servers of clouds hand out logins.
// Empty: it may go.
std::string wrong_with_target(const std::string& from, const std::string& to);

// The URL that a Location header means, seen from `base`; empty if it is none. A path without a host is of
// the same server.
std::string resolve(const std::string& base, const std::string& location);

// Whether credentials for one may be sent to the other: the same scheme, host and port.
bool is_same_server(const std::string& a, const std::string& b);

}  // namespace mlk::registry
