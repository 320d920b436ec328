#include "cli/registry/challenge.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "cli/util/text.h"

namespace mlk::registry {
namespace {

constexpr std::size_t most = 16;

bool is_token(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x80 &&
         (std::isalnum(byte) != 0 || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }
  void skip(std::string_view what) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(what), rest_.size()));
  }
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string_view token() {
    const std::size_t size =
        static_cast<std::size_t>(std::find_if_not(rest_.begin(), rest_.end(), is_token) - rest_.begin());
    const std::string_view out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return out;
  }
  // Reads a quoted text after its opening quote; false if there is no closing quote.
  bool quoted(std::string& out) {
    while (!rest_.empty()) {
      char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return true;
      if (c == '\\' && !rest_.empty()) {
        c = rest_.front();
        rest_.remove_prefix(1);
      }
      out += c;
    }
    return false;
  }
  // Whether the next part is a parameter, and not the scheme of another challenge.
  bool at_parameter() const {
    Reader ahead = *this;
    if (ahead.token().empty()) return false;
    ahead.skip(" \t");
    return ahead.take('=');
  }

 private:
  std::string_view rest_;
};

}  // namespace

std::vector<Challenge> parse_challenges(const std::string& header) {
  std::vector<Challenge> out;
  Reader reader(header);
  while (out.size() < most) {
    reader.skip(" \t,");
    Challenge challenge{.scheme = lower_case(std::string(reader.token())), .parameters = {}};
    if (challenge.scheme.empty()) break;
    reader.skip(" \t");
    while (reader.at_parameter() && challenge.parameters.size() < most) {
      const std::string name = lower_case(std::string(reader.token()));
      reader.skip(" \t");
      (void)reader.take('=');
      reader.skip(" \t");
      std::string value;
      if (!reader.take('"')) {
        value = reader.token();
      } else if (!reader.quoted(value)) {
        return out;
      }
      challenge.parameters.emplace(name, std::move(value));
      reader.skip(" \t");
      if (!reader.take(',')) break;
      reader.skip(" \t,");
    }
    out.push_back(std::move(challenge));
  }
  return out;
}

std::optional<Challenge> best_of(const std::vector<Challenge>& challenges) {
  for (const char* scheme : {"bearer", "basic"}) {
    for (const Challenge& challenge : challenges) {
      const bool usable = challenge.scheme == "basic" || challenge.parameters.contains("realm");
      if (challenge.scheme == scheme && usable) return challenge;
    }
  }
  return std::nullopt;
}

}  // namespace mlk::registry
