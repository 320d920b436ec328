// The handshake that turns a connection of HTTP/1.1 into one of WebSocket (RFC 6455). Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/http/request.h"

namespace mlk::http {

struct AnswerHead {
  int status = 0;
  Headers headers;                                  // names in lower-case letters
  std::string header(std::string_view name) const;  // the first value of this name; empty: none
};

// A request for an upgrade. `target`: path and query, encoded. `lines`: further headers, such as
// "Authorization: ..."; a line without a value is left out. `key`: 16 random bytes in base64.
std::string upgrade_request(const std::string& target, const std::vector<std::string>& lines,
                            const std::string& key, const std::vector<std::string>& protocols);

// The value of Sec-WebSocket-Accept that belongs to the key.
std::string accept_for(const std::string& key);

// Parses a head, which ends with an empty line. nullopt: it is not the head of an HTTP/1 answer.
[[nodiscard]] std::optional<AnswerHead> parse_answer_head(std::string_view head);

// Why an answer with the status 101 is no acceptance of our request; empty: it is one.
[[nodiscard]] std::string upgrade_fault(const AnswerHead& head, const std::string& key,
                                        const std::vector<std::string>& protocols);

// The body in `bytes`, which followed the head. nullopt: more bytes have to come, unless the connection ends.
[[nodiscard]] std::optional<std::string> whole_body(const AnswerHead& head, std::string_view bytes);

}  // namespace mlk::http
