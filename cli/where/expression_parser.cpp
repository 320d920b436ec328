// Parses text to an Expression, by recursive descent:
//
//   any        = all { ("||" | "or") all }
//   all        = one { ("&&" | "and") one }
//   one        = ("!" | "not") one | "(" any ")" | comparison
//   comparison = name ("==" | "!=" | "<" | "<=" | ">" | ">=") value | name ["not"] "in" list | name "=~" text
//   value      = word | text | list | map
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cli/util/number.h"
#include "cli/util/text.h"
#include "cli/where/expression.h"
#include "cli/yaml/yaml.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;
using Operator = Comparison::Operator;

std::string shown(const Token& token) {
  switch (token.kind) {
    case Token::Kind::end:
      return "the end";
    case Token::Kind::text:
      return "text in quotes";
    default:
      return "'" + token.text + "'";
  }
}

// Reads a word by the rules of experiment files, so that a value copied from such a file compares as equal.
json bare_value(const std::string& word) {
  if (lower_case(word) == "null") return nullptr;
  if (const std::optional<double> number = number_of_word(word); number && !word_of_number(*number).empty())
    if (!is_number(word)) return word_of_number(*number);  // the form in which metrics are stored
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = word;
  node.plain = true;
  return to_json(node);
}

// Joins the parts. A part that itself has this kind is replaced by its parts: "(a and b) and c" has three
// parts.
Expression joined(Expression::Kind kind, std::vector<Expression> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  Expression out;
  out.kind = kind;
  for (Expression& part : parts) {
    if (part.kind != kind) {
      out.parts.push_back(std::move(part));
      continue;
    }
    for (Expression& inner : part.parts) out.parts.push_back(std::move(inner));
  }
  return out;
}

std::optional<Operator> operator_of(const Token& token) {
  if (token.kind != Token::Kind::sign) return std::nullopt;
  for (const Operator op : {Operator::equal, Operator::not_equal, Operator::less, Operator::at_most,
                            Operator::greater, Operator::at_least, Operator::like}) {
    if (token.text == sign_of(op)) return op;
  }
  return std::nullopt;
}

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Expression whole() {
    if (next().kind == Token::Kind::end) refuse(next().place, "the expression is empty");
    Expression expression = any();
    if (is_sign(")")) refuse(next().place, "this ')' closes nothing");
    if (next().kind != Token::Kind::end)
      refuse(next().place, "'&&', '||' or the end must follow here, not " + shown(next()));
    return expression;
  }

 private:
  // Counts the depth of nesting.
  class Level {
   public:
    explicit Level(ExpressionParser& parser) : depth_(parser.depth_) {
      if (++depth_ > deepest_expression)
        refuse(parser.next().place, fmt::format("nested deeper than {} levels", deepest_expression));
    }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int& depth_;
  };

  const Token& next() const { return tokens_[at_]; }
  // Returns the next token, and goes to the token after it, but never beyond the last token.
  const Token& consume() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is_sign(std::string_view sign) const {
    return next().kind == Token::Kind::sign && next().text == sign;
  }
  bool is_word(std::string_view word) const {
    return next().kind == Token::Kind::word && next().text == word;
  }
  bool consume_if(std::string_view sign, std::string_view word = "") {
    if (!is_sign(sign) && !(is_word(word) && !word.empty())) return false;
    consume();
    return true;
  }

  Expression any() {
    std::vector<Expression> parts;
    do {
      parts.push_back(all());
    } while (consume_if("||", "or"));
    return joined(Expression::Kind::any, std::move(parts));
  }

  Expression all() {
    std::vector<Expression> parts;
    do {
      parts.push_back(one());
    } while (consume_if("&&", "and"));
    return joined(Expression::Kind::all, std::move(parts));
  }

  Expression one() {
    const Level level(*this);
    const Place place = next().place;
    if (consume_if("!", "not")) {
      Expression negation;
      negation.kind = Expression::Kind::negation;
      negation.parts.push_back(one());
      return negation;
    }
    if (consume_if("(")) {
      Expression inner = any();
      close(")", place, "'&&', '||' or ')'");
      return inner;
    }
    Expression out;
    out.kind = Expression::Kind::comparison;
    out.comparison = comparison();
    return out;
  }

  void close(std::string_view sign, const Place& opened, const std::string& due) {
    if (consume_if(sign)) return;
    if (next().kind == Token::Kind::end)
      refuse(opened, fmt::format("this '{}' is not closed", sign == ")" ? "(" : sign == "]" ? "[" : "{"));
    refuse(next().place, fmt::format("{} must follow here, not {}", due, shown(next())));
  }

  NameUse name() {
    const Token& token = consume();
    if (token.kind == Token::Kind::text && !token.text.empty()) return {token.text, token.place};
    if (token.kind == Token::Kind::word && is_plain_name(token.text)) return {token.text, token.place};
    if (token.kind == Token::Kind::word && is_number(token.text))
      refuse(token.place,
             fmt::format("a name stands on the left, the number on the right: lr < {}", token.text));
    refuse(token.place, fmt::format("a name must stand here, not {}",
                                    token.kind == Token::Kind::text ? "empty quotes" : shown(token)));
  }

  Comparison comparison() {
    Comparison out;
    out.left = name();
    if (is_sign("=")) refuse(next().place, "'=' does not compare; write '=='");
    if (is_word("in") || is_word("not")) {
      out.op = consume().text == "in" ? Operator::in : Operator::not_in;
      if (out.op == Operator::not_in && !consume_if("", "in"))
        refuse(next().place, "'in' must follow 'not' here, not " + shown(next()));
      if (!is_sign("["))
        refuse(next().place, "a list must follow 'in', for example [0.1, 0.01], not " + shown(next()));
    } else if (const std::optional<Operator> op = operator_of(next())) {
      out.op = *op;
      consume();
    } else {
      refuse(next().place, fmt::format("a comparison (== != < <= > >= =~ in) must follow '{}', not {}",
                                       out.left.name, shown(next())));
    }
    out.value_place = next().place;
    if (out.op == Operator::like) {
      out.value = pattern();
      out.pattern.emplace(out.value.get_ref<const std::string&>(),
                          ignores_case(out.left.name) ? LetterCase::is_ignored : LetterCase::matters);
      return out;
    }
    if (!is_duration(out.left.name)) require_order(out.op);
    out.value = value();
    return out;
  }

  // After "<", "<=", ">" and ">=", refuses a bare word that is not a number. Such a word is a mistake, as in
  // "lr < loss" or "memory < 16Gi".
  void require_order(Operator op) const {
    if (op != Operator::less && op != Operator::at_most && op != Operator::greater &&
        op != Operator::at_least)
      return;
    const bool fits =
        next().kind == Token::Kind::text || (next().kind == Token::Kind::word && number_of_word(next().text));
    if (!fits)
      refuse(next().place, fmt::format("a number, or text in quotes, must follow '{}', not {}", sign_of(op),
                                       shown(next())));
  }

  std::string pattern() {
    const Token& token = consume();
    if (token.kind != Token::Kind::text)
      refuse(token.place, "a pattern in quotes must follow '=~', not " + shown(token));
    if (const std::string why = why_no_pattern(token.text); !why.empty())
      refuse(token.place, "the pattern " + why);
    return token.text;
  }

  json value() {
    const Token& token = consume();
    if (token.kind == Token::Kind::text) return token.text;
    if (token.kind == Token::Kind::word && (is_plain_name(token.text) || is_number(token.text))) {
      json read = bare_value(token.text);
      if (is_number(token.text) && !read.is_number())
        refuse(token.place, fmt::format("the number {} is too large", token.text));
      return read;
    }
    if (token.kind == Token::Kind::word)
      refuse(token.place, fmt::format("a value must stand here; the text {0} is written '{0}'", token.text));
    const Level level(*this);
    if (token.kind == Token::Kind::sign && token.text == "[") return list(token.place);
    if (token.kind == Token::Kind::sign && token.text == "{") return map(token.place);
    refuse(token.place, "a value must stand here, not " + shown(token));
  }

  json list(const Place& opened) {
    json out = json::array();
    if (consume_if("]")) return out;
    do {
      out.push_back(value());
    } while (consume_if(","));
    close("]", opened, "',' or ']'");
    return out;
  }

  json map(const Place& opened) {
    json out = json::object();
    if (consume_if("}")) return out;
    do {
      const Token& key = consume();
      if (key.kind != Token::Kind::text && key.kind != Token::Kind::word)
        refuse(key.place, "a key must stand here, not " + shown(key));
      if (!consume_if(":")) refuse(next().place, "':' must follow the key, not " + shown(next()));
      out[key.text] = value();
    } while (consume_if(","));
    close("}", opened, "',' or '}'");
    return out;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Expression parse_expression(std::string_view text, const std::string& source_name) {
  const auto source = std::make_shared<const Source>(Source{source_name, std::string(text)});
  return ExpressionParser(tokens_of(source)).whole();
}

}  // namespace mlk::sweeps
