#include "cli/http/url.h"

#include <arpa/inet.h>
#include <memory>
#include <netinet/in.h>
#include <new>

#include <curl/curl.h>

namespace mlk::http {
namespace {

using Url = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;
using Text = std::unique_ptr<char, decltype(&curl_free)>;

// Empty if the URL has no such part.
std::string part_of(const Url& url, CURLUPart part, unsigned int flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return "";
  return Text(text, &curl_free).get();
}

}  // namespace

std::optional<UrlParts> parts_of(const std::string& text) {
  const Url url(curl_url(), &curl_url_cleanup);
  if (url == nullptr) throw std::bad_alloc();
  // A URL may have a scheme that libcurl does not speak. The caller decides which schemes to accept.
  const unsigned int flags = CURLU_NON_SUPPORT_SCHEME | CURLU_PATH_AS_IS;
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), flags) != CURLUE_OK) return std::nullopt;
  UrlParts parts{.scheme = part_of(url, CURLUPART_SCHEME),
                 .authority = part_of(url, CURLUPART_HOST),
                 .host = part_of(url, CURLUPART_HOST),
                 .port = part_of(url, CURLUPART_PORT, CURLU_DEFAULT_PORT),
                 .path = part_of(url, CURLUPART_PATH)};
  if (parts.host.empty()) return std::nullopt;
  if (const std::string port = part_of(url, CURLUPART_PORT); !port.empty()) parts.authority += ":" + port;
  if (parts.host.starts_with('[')) parts.host = parts.host.substr(1, parts.host.size() - 2);
  parts.has_login = !part_of(url, CURLUPART_USER).empty() || !part_of(url, CURLUPART_PASSWORD).empty();
  return parts;
}

std::string in_url(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string percent_encode(std::string_view text) {
  if (text.empty()) return "";
  const Text encoded(curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size())), &curl_free);
  if (encoded == nullptr) throw std::bad_alloc();
  return encoded.get();
}

}  // namespace mlk::http
