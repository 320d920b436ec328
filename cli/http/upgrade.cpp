#include "cli/http/upgrade.h"

#include <algorithm>
#include <charconv>

#include <openssl/sha.h>

#include "cli/util/hash.h"
#include "cli/util/text.h"

namespace mlk::http {
namespace {

// The number at the beginning of the text; nullopt: there is none.
std::optional<std::size_t> leading_size(std::string_view text, int base) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

std::optional<std::string> without_chunks(std::string_view bytes) {
  std::string body;
  while (true) {
    const std::size_t line = bytes.find("\r\n");
    if (line == bytes.npos) return std::nullopt;
    const std::optional<std::size_t> size = leading_size(bytes, 16);
    if (!size || *size == 0) return body;  // the end, or no chunk: the rest is of no use
    bytes.remove_prefix(line + 2);
    if (*size >= bytes.size() || bytes.size() - *size < 2) return std::nullopt;
    body += bytes.substr(0, *size);
    bytes.remove_prefix(*size + 2);
  }
}

}  // namespace

std::string AnswerHead::header(std::string_view name) const {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [&](const auto& each) { return each.first == name; });
  return found == headers.end() ? "" : found->second;
}

std::string upgrade_request(const std::string& target, const std::vector<std::string>& lines,
                            const std::string& key, const std::vector<std::string>& protocols) {
  std::string names;
  for (const std::string& protocol : protocols) names += (names.empty() ? "" : ", ") + protocol;
  std::string head = "GET " + target + " HTTP/1.1\r\n";
  for (const std::string& line : lines) {
    if (!line.ends_with(':')) head += line + "\r\n";
  }
  return head + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
         "Sec-WebSocket-Key: " + key + "\r\nSec-WebSocket-Protocol: " + names + "\r\n\r\n";
}

std::string accept_for(const std::string& key) {
  const std::string text = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";  // the constant of RFC 6455
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return base64_encode({reinterpret_cast<const char*>(digest), sizeof digest});
}

std::optional<AnswerHead> parse_answer_head(std::string_view head) {
  constexpr std::string_view version = "HTTP/1.";
  if (!head.starts_with(version) || head.size() < 12 || head[8] != ' ') return std::nullopt;
  const std::optional<std::size_t> status = leading_size(head.substr(9, 3), 10);
  if (!status || *status < 100 || *status > 999) return std::nullopt;
  AnswerHead out{static_cast<int>(*status), {}};
  for (std::size_t end; (end = head.find('\n')) != head.npos; head.remove_prefix(end + 1)) {
    const std::string_view line = trim(head.substr(0, end));
    const std::size_t colon = line.find(':');
    if (line.starts_with(version) || colon == line.npos) continue;
    out.headers.emplace_back(lower_case(std::string(trim(line.substr(0, colon)))),
                             trim(line.substr(colon + 1)));
  }
  return out;
}

std::string upgrade_fault(const AnswerHead& head, const std::string& key,
                          const std::vector<std::string>& protocols) {
  if (lower_case(head.header("upgrade")) != "websocket") return "it does not change to WebSocket";
  if (head.header("sec-websocket-accept") != accept_for(key))
    return "its Sec-WebSocket-Accept does not belong to our key";
  const std::string protocol = head.header("sec-websocket-protocol");
  if (std::find(protocols.begin(), protocols.end(), protocol) == protocols.end())
    return "it chooses the protocol \"" + printable(cut(protocol, 100)) + "\", which mlk did not offer";
  if (!head.header("sec-websocket-extensions").empty()) return "it uses extensions that mlk did not offer";
  return "";
}

std::optional<std::string> whole_body(const AnswerHead& head, std::string_view bytes) {
  if (lower_case(head.header("transfer-encoding")) == "chunked") return without_chunks(bytes);
  const std::optional<std::size_t> size = leading_size(head.header("content-length"), 10);
  if (!size || bytes.size() < *size) return std::nullopt;
  return std::string(bytes.substr(0, *size));
}

}  // namespace mlk::http
