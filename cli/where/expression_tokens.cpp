#include "cli/where/expression_tokens.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/util/json.h"
#include "cli/util/unicode.h"
#include "cli/yaml/yaml.h"

namespace mlk::sweeps {
namespace {

// Longer signs come first, so that "<=" is not read as "<" and "=".
constexpr std::array<std::string_view, 17> signs{"==", "=~", "!=", "<=", ">=", "&&", "||", "=", "<",
                                                 ">",  "!",  "(",  ")",  "[",  "]",  "{",  "}"};
constexpr std::string_view separators = ",:";

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         static_cast<unsigned char>(c) >= 0x80 ||
         std::string_view("_.-+/@").find(c) != std::string_view::npos;
}

Place place_at(const std::shared_ptr<const Source>& source, std::size_t at) {
  const std::string_view before = std::string_view(source->text).substr(0, at);
  const auto lines = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t line_break = before.rfind('\n');
  return {source, lines, line_break == std::string_view::npos ? at : at - line_break - 1};
}

// Returns the text between single quotes, in which '' means one quote; nullopt if the quote is not closed.
// Sets `end` to the place after the closing quote.
std::optional<std::string> single_quoted(std::string_view text, std::size_t start, std::size_t& end) {
  std::string out;
  for (std::size_t i = start + 1; i < text.size(); ++i) {
    if (text[i] != '\'') {
      out += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == '\'') {
      out += text[i++];
    } else {
      end = i + 1;
      return out;
    }
  }
  return std::nullopt;
}

// The place after the closing double quote of the text that begins at `start`; npos if this quote is missing.
std::size_t end_of_json_text(std::string_view text, std::size_t start) {
  for (std::size_t i = start + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

std::string quoted_text(const std::shared_ptr<const Source>& source, std::size_t start, std::size_t& end) {
  const std::string_view text = source->text;
  constexpr char not_closed[] = "this quote is not closed";
  if (text[start] == '\'') {
    const std::optional<std::string> found = single_quoted(text, start, end);
    if (!found) refuse(place_at(source, start), not_closed);
    return *found;
  }
  end = end_of_json_text(text, start);
  if (end == std::string_view::npos) refuse(place_at(source, start), not_closed);
  const nlohmann::json value = json_or_null(text.substr(start, end - start));
  if (!value.is_string())
    refuse(place_at(source, start), "text in double quotes is written as in JSON; '...' takes it as it is");
  return value.get<std::string>();
}

// The sign at the start of the text; empty if there is none.
std::string_view sign_at(std::string_view text) {
  for (const std::string_view sign : signs) {
    if (text.starts_with(sign)) return sign;
  }
  return separators.find(text.front()) != std::string_view::npos ? text.substr(0, 1) : "";
}

std::string unknown_sign(std::string_view text) {
  if (text.front() == '&' || text.front() == '|')
    return fmt::format("'{0}' joins no comparisons; write '{0}{0}'", text.front());
  if (text.front() == '~') return "'~' alone is not an operator; write a pattern after '=~'";
  return fmt::format("'{}' is not an operator; put text with this character in quotes", text.front());
}

}  // namespace

void refuse(const Place& place, const std::string& what) {
  Problems problems;
  problems.add(place, what);
  problems.throw_if_any("write for example: lr < 0.01 && state == Succeeded");
  std::abort();  // never reached: throw_if_any() throws
}

std::vector<Token> tokens_of(const std::shared_ptr<const Source>& source) {
  const std::string_view text = source->text;
  if (text.size() > longest_expression)
    refuse({source, 0, 0}, fmt::format("the expression is longer than {} bytes", longest_expression));
  if (!is_utf8(text)) refuse({source, 0, 0}, "the expression is not UTF-8 text");
  std::vector<Token> tokens;
  std::size_t at = 0, behind = 0;
  while (true) {
    at = text.find_first_not_of(" \t\r\n", at);
    if (at == std::string_view::npos) break;
    Token token;
    token.place = place_at(source, at);
    std::size_t end = at;
    if (text[at] == '\'' || text[at] == '"') {
      token.kind = Token::Kind::text;
      token.text = quoted_text(source, at, end);
    } else if (is_word_character(text[at])) {
      while (end < text.size() && is_word_character(text[end])) ++end;
      token.kind = Token::Kind::word;
      token.text = text.substr(at, end - at);
    } else {
      token.kind = Token::Kind::sign;
      token.text = sign_at(text.substr(at));
      if (token.text.empty()) refuse(token.place, unknown_sign(text.substr(at)));
      end = at + token.text.size();
    }
    tokens.push_back(std::move(token));
    at = behind = end;
  }
  tokens.push_back({Token::Kind::end, "", place_at(source, behind)});
  return tokens;
}

bool is_plain_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_word_character) && !is_number(text) &&
         text != "and" && text != "or" && text != "not" && text != "in";
}

}  // namespace mlk::sweeps
