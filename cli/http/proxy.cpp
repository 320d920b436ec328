#include "cli/http/proxy.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "cli/http/url.h"
#include "cli/util/text.h"

namespace mlk::http {
namespace {

// An IPv4 address is stored as its IPv4-mapped IPv6 address.
struct IpAddress {
  std::array<unsigned char, 16> bytes{};
  bool is_v4 = false;
};

std::optional<IpAddress> ip_of(const std::string& text) {
  IpAddress address;
  if (::inet_pton(AF_INET, text.c_str(), address.bytes.data() + 12) == 1) {
    address.bytes[10] = address.bytes[11] = 0xff;
    address.is_v4 = true;
    return address;
  }
  if (::inet_pton(AF_INET6, text.c_str(), address.bytes.data()) != 1) return std::nullopt;
  static constexpr std::array<unsigned char, 12> mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  address.is_v4 = std::equal(mapped.begin(), mapped.end(), address.bytes.begin());
  return address;
}

// Whether an entry of NO_PROXY is a network, such as "192.0.2.0/24", that contains the address; nullopt if
// the entry is no network.
std::optional<bool> is_in_network(const std::string& entry, const std::optional<IpAddress>& ip) {
  const std::size_t slash = entry.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::string address = entry.substr(0, slash), length = entry.substr(slash + 1);
  const std::optional<IpAddress> network = ip_of(address);
  const bool written_as_v4 = address.find(':') == std::string::npos;
  int bits = -1;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bits);
  if (!network || error != std::errc() || end != length.data() + length.size() || bits < 0 ||
      bits > (written_as_v4 ? 32 : 128))
    return std::nullopt;
  if (!ip || ip->is_v4 != network->is_v4) return false;
  if (written_as_v4) bits += 96;
  for (int bit = 0; bit < bits; ++bit) {
    const auto at = static_cast<std::size_t>(bit / 8);
    if (((ip->bytes[at] ^ network->bytes[at]) >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

struct HostAndPort {
  std::string host, port;
};

// Splits "host:port" or "[::1]:port". Any other text is the host as a whole.
HostAndPort split_port(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text, ""};
  std::string host = text.substr(0, colon);
  const bool in_brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  if (!in_brackets && host.find(':') != std::string::npos) return {text, ""};
  return {host, text.substr(colon + 1)};
}

// Whether one entry of NO_PROXY matches this host and port.
bool is_meant(const std::string& entry, const std::string& host, const std::string& port,
              const std::optional<IpAddress>& ip) {
  if (entry == "*") return true;
  if (const std::optional<bool> is_inside = is_in_network(entry, ip)) return *is_inside;
  auto [name, of_port] = split_port(entry);
  if (name.empty() || (!of_port.empty() && of_port != port)) return false;
  if (const std::optional<IpAddress> address = ip_of(name)) return ip && ip->bytes == address->bytes;
  if (ip) return false;
  if (name.starts_with("*.")) name.erase(0, 1);
  if (name.front() != '.') return host == name || host.ends_with("." + name);
  return host.ends_with(name);
}

// The name and the value of a variable. The name in upper case wins over the name in lower case.
std::pair<std::string, std::string> variable(const ProxyEnvironment& environment, const std::string& name) {
  for (const std::string& each : {name, lower_case(name)}) {
    const auto found = environment.find(each);
    if (found != environment.end() && !found->second.empty()) return *found;
  }
  return {};
}

std::string default_port(const std::string& scheme) {
  return scheme == "https" ? "443" : scheme.starts_with("socks5") ? "1080" : "80";
}

}  // namespace

ProxyEnvironment proxy_environment() {
  ProxyEnvironment environment;
  for (const char* name :
       {"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "REQUEST_METHOD"}) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  return environment;
}

Proxy proxy_of(const std::string& text, const std::string& origin) {
  const std::string full = text.find("://") == std::string::npos ? "http://" + text : text;
  const std::optional<UrlParts> parts = parts_of(full);
  if (text.empty() || !parts) return {};
  const std::size_t begin = full.find("://") + 3, end = full.find_first_of("/?#", begin);
  const std::string between = full.substr(begin, end == std::string::npos ? end : end - begin);
  const std::size_t at = between.rfind('@');
  const std::string login = at == std::string::npos ? "" : between.substr(0, at + 1);
  const std::string host = in_url(parts->host);
  const bool has_port = parts->authority.size() > host.size();
  const std::string address = host + ":" + (has_port ? parts->port : default_port(parts->scheme));
  // Go lets the proxy resolve host names for both socks5 and socks5h. libcurl does this only for socks5h.
  const std::string scheme = parts->scheme == "socks5" ? "socks5h" : parts->scheme;
  return {scheme + "://" + login + address, address, origin};
}

Proxy proxy_to(const std::string& url, const std::string& proxy_url) {
  return proxy_url.empty() ? proxy_for(url, proxy_environment()) : proxy_of(proxy_url, "proxy-url");
}

Proxy proxy_for(const std::string& url, const ProxyEnvironment& environment) {
  const std::optional<UrlParts> parts = parts_of(url);
  if (!parts) return {};
  const bool is_https = parts->scheme == "https";
  // If REQUEST_METHOD is set, a web server has started mlk (CGI). Such a server passes the header "Proxy",
  // which its client may have sent, as HTTP_PROXY. So mlk ignores HTTP_PROXY.
  if (!is_https && !variable(environment, "REQUEST_METHOD").second.empty()) return {};
  const auto [origin, text] = variable(environment, is_https ? "HTTPS_PROXY" : "HTTP_PROXY");
  if (text.empty() || is_loopback(parts->host)) return {};
  const std::string host = lower_case(parts->host);
  const std::optional<IpAddress> ip = ip_of(host);
  for (const std::string& entry : split(variable(environment, "NO_PROXY").second, ',')) {
    if (is_meant(lower_case(std::string(trim(entry))), host, parts->port, ip)) return {};
  }
  return proxy_of(text, origin);
}

}  // namespace mlk::http
