#include "cli/kube/url.h"

#include <arpa/inet.h>
#include <netinet/in.h>

namespace mlk::kube {

UrlParts parts_of(const std::string& url) {
  UrlParts parts;
  const std::size_t start = url.find("://");
  parts.scheme = url.substr(0, start);
  const std::string rest = start == std::string::npos ? "" : url.substr(start + 3);
  const std::size_t slash = rest.find('/');
  parts.authority = rest.substr(0, slash);
  parts.path = slash == std::string::npos ? "" : rest.substr(slash);
  const std::size_t bracket =
      parts.authority.starts_with('[') ? parts.authority.find(']') : std::string::npos;
  const std::size_t colon = parts.authority.find(':', bracket == std::string::npos ? 0 : bracket);
  parts.host = bracket == std::string::npos ? parts.authority.substr(0, colon)
                                            : parts.authority.substr(1, bracket - 1);
  parts.port = colon != std::string::npos ? parts.authority.substr(colon + 1)
               : parts.scheme == "https"  ? "443"
                                          : "80";
  return parts;
}

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace mlk::kube
