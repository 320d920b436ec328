#include "cli/registry/address.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstdint>
#include <netinet/in.h>

#include "cli/http/url.h"
#include "cli/image/reference.h"
#include "cli/util/text.h"

namespace mlk::registry {
namespace {

bool is_of_this_link(const std::string& host) {
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    const std::uint32_t address = ntohl(v4.s_addr);
    return (address >> 16) == 0xa9fe || address == 0;  // 169.254.0.0/16, 0.0.0.0 (this machine)
  }
  in6_addr v6{};
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 &&
         (IN6_IS_ADDR_LINKLOCAL(&v6) || IN6_IS_ADDR_UNSPECIFIED(&v6) || IN6_IS_ADDR_V4MAPPED(&v6));
}

// Whether the host leads to this machine. Also true for localhost and all names below it (RFC 6761), in upper
// or lower case, even if a dot follows. http::is_loopback() is stricter, because mlk trusts its result.
bool is_of_this_machine(const std::string& name) {
  std::string host = lower_case(name);
  if (host.ends_with('.')) host.pop_back();
  return host.ends_with(".localhost") || http::is_loopback(host);
}

}  // namespace

std::string url_of(const std::string& registry, bool encrypted) {
  return (encrypted ? "https://" : "http://") +
         (registry == image::docker_hub ? std::string("registry-1.docker.io") : registry);
}

std::string wrong_with_target(const std::string& from, const std::string& to) {
  const auto source = http::parts_of(from), target = http::parts_of(to);
  if (!target || (target->scheme != "https" && target->scheme != "http"))
    return "an address that is not a valid URL";
  if (source->scheme == "https" && target->scheme != "https") return "a place that is not encrypted";
  if (source->host == target->host) return "";
  if (is_of_this_link(target->host)) return "an address of this machine's link";
  if (is_of_this_machine(target->host) && !is_of_this_machine(source->host))
    return "an address of this machine";
  return "";
}

std::string resolve(const std::string& base, const std::string& location) {
  const auto bad = [](unsigned char c) { return c <= ' ' || c == 0x7f; };
  if (location.empty() || std::any_of(location.begin(), location.end(), bad)) return "";
  if (location.starts_with("//")) return http::parts_of(base)->scheme + ":" + location;
  if (location.starts_with('/')) {
    const auto parts = http::parts_of(base);
    return parts->scheme + "://" + parts->authority + location;
  }
  return http::parts_of(location) && location.find("://") != location.npos ? location : "";
}

bool is_same_server(const std::string& a, const std::string& b) {
  const auto one = http::parts_of(a), other = http::parts_of(b);
  return one && other && one->scheme == other->scheme && one->host == other->host && one->port == other->port;
}

}  // namespace mlk::registry
