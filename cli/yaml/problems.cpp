#include "cli/yaml/problems.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "cli/util/error.h"
#include "cli/util/text.h"
#include "cli/util/unicode.h"

namespace mlk {

namespace {

constexpr std::size_t longest_excerpt = 100;
constexpr std::size_t longest_shown = 4096;  // a longer line was not written by hand, so it is not shown
constexpr std::size_t most_problems = 20;    // in one error; later mistakes often follow from earlier ones
constexpr std::size_t most_kept = 1000;      // in memory; a hostile file could have a million mistakes

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::size_t characters(std::string_view bytes) {
  return static_cast<std::size_t>(
      std::count_if(bytes.begin(), bytes.end(), [](char c) { return !continues_character(c); }));
}

std::string_view line_of(const Source& source, std::size_t line) {
  std::string_view rest = source.text;
  for (; line > 0; --line) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
  rest = rest.substr(0, rest.find('\n'));
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  return rest;
}

bool word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Whether the line has a login, such as "user:password@host". "image:tag@sha256:..." is not a login.
bool has_login(std::string_view line) {
  for (std::size_t at = line.find('@'); at != line.npos; at = line.find('@', at + 1)) {
    const std::string_view word = line.substr(0, at).substr(line.find_last_of(" \t\"'{[,", at) + 1);
    if (word.find(':') != word.npos && !line.substr(at).starts_with("@sha256:")) return true;
  }
  return false;
}

// An error must not show a line with a password, because users copy errors into logs and tickets.
bool may_hold_secret(std::string_view line) {
  std::size_t start = 0;
  while (start < line.size()) {
    if (!word_character(line[start])) {
      ++start;
      continue;
    }
    std::size_t end = start;
    while (end < line.size() && word_character(line[end])) ++end;
    const bool followed =
        end < line.size() && std::string_view(":=\"'").find(line[end]) != std::string_view::npos;
    const std::string_view word = line.substr(start, end - start);
    // The value of `secret:` is not secret: the value is the name of a Secret.
    if (followed && word != "secret" && names_secret(word)) return true;
    start = end;
  }
  for (std::size_t at = 0; at < line.size(); ++at) {
    const bool begins = at == 0 || !word_character(line[at - 1]);
    if (begins && looks_like_secret(line.substr(at, line.find_first_of(" ,}\"'", at) - at))) return true;
  }
  return has_login(line);
}

// Returns the line and a caret below the column. Returns only the part around the caret if the line is long,
// and an empty text if the line must not be shown.
std::string excerpt(const Place& place) {
  std::string_view line = line_of(*place.source, place.line);
  if (trim(line).empty() || line.size() > longest_shown || !is_utf8(line) || may_hold_secret(line)) return "";
  std::size_t column = std::min(place.column, line.size());
  if (line.size() > longest_excerpt) {
    std::size_t first = column > longest_excerpt / 2 ? column - longest_excerpt / 2 : 0;
    while (first > 0 && continues_character(line[first])) --first;
    std::size_t length = std::min(longest_excerpt, line.size() - first);
    while (first + length < line.size() && continues_character(line[first + length])) ++length;
    line = line.substr(first, length);
    column -= first;
  }
  std::string shown = printable(line);
  std::replace(shown.begin(), shown.end(), '\t', ' ');
  return fmt::format("\n  {}\n  {:>{}}", shown, '^', characters(line.substr(0, column)) + 1);
}

}  // namespace

void Problems::add(const Place& place, std::string what) {
  if (found_.size() >= most_kept) return;
  const auto same = [&](const Problem& other) {
    return other.place.source == place.source && other.place.line == place.line &&
           other.place.column == place.column && other.what == what;
  };
  // The check finds a bad node behind an alias at each use of the alias. So a mistake that is already in the
  // list is not added.
  if (std::none_of(found_.begin(), found_.end(), same)) found_.push_back({place, printable(what)});
}

void Problems::throw_if_any(const std::string& hint) const {
  if (found_.empty()) return;
  std::vector<const Problem*> sorted;
  for (const Problem& problem : found_) sorted.push_back(&problem);
  // Sorts the problems by line and column. Problems in the values of flags come last. mlk recognises a
  // flag by its name, which begins with "-", so a file with such a name is sorted like a flag.
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem* a, const Problem* b) {
    const bool a_flag = a->place.source->name.starts_with("-"),
               b_flag = b->place.source->name.starts_with("-");
    if (a_flag != b_flag) return b_flag;
    if (a->place.line != b->place.line) return a->place.line < b->place.line;
    return a->place.column < b->place.column;
  });
  std::string text;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i == most_problems) {
      text += fmt::format("\nand {} more", sorted.size() - i);
      break;
    }
    const Problem& problem = *sorted[i];
    if (i > 0) text += '\n';
    const std::string_view line = line_of(*problem.place.source, problem.place.line);
    const std::size_t column = characters(line.substr(0, std::min(problem.place.column, line.size()))) + 1;
    text += fmt::format("{}:{}:{}: {}{}", printable(problem.place.source->name), problem.place.line + 1,
                        column, problem.what, excerpt(problem.place));
  }
  throw Error(ExitCode::usage, text, hint);
}

bool looks_like_secret(std::string_view value) {
  struct Pattern {
    std::string_view prefix;
    std::size_t shortest;  // length of a whole secret, with the prefix
  };
  static constexpr Pattern patterns[] = {
      {"ghp_", 20},  {"gho_", 20}, {"ghs_", 20}, {"github_pat_", 20}, {"glpat-", 20},
      {"sk-", 20},   {"AKIA", 20}, {"ASIA", 20}, {"hf_", 30},         {"xoxb-", 20},
      {"xoxp-", 20}, {"AIza", 35}, {"eyJ", 30},  {"-----BEGIN", 10}};
  for (const Pattern& pattern : patterns) {
    if (value.starts_with(pattern.prefix) && value.size() >= pattern.shortest) return true;
  }
  // scheme://user:password@host
  const std::size_t scheme = value.find("://");
  if (scheme == std::string_view::npos) return false;
  const std::string_view authority = value.substr(scheme + 3, value.find('/', scheme + 3) - scheme - 3);
  const std::size_t at = authority.find('@');
  return at != std::string_view::npos && authority.substr(0, at).find(':') != std::string_view::npos;
}

bool names_secret(std::string_view variable) {
  const std::vector<std::string> words = split(as_variable_name(std::string(variable)), '_');
  if (words.empty()) return false;
  // Variables such as SSL_KEY_FILE hold the place of a secret, not the secret.
  static const std::vector<std::string> places{"FILE", "PATH", "DIR", "URL", "NAME"};
  if (std::find(places.begin(), places.end(), words.back()) != places.end()) return false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    static const std::vector<std::string> telling{"TOKEN",      "SECRET",      "PASSWORD",
                                                  "PASSWD",     "PASSPHRASE",  "APIKEY",
                                                  "CREDENTIAL", "CREDENTIALS", "AUTHTOKEN"};
    if (std::find(telling.begin(), telling.end(), word) != telling.end()) return true;
    const bool before_key = i + 1 < words.size() && words[i + 1] == "KEY";
    if (before_key && (word == "API" || word == "ACCESS" || word == "PRIVATE" || word == "ENCRYPTION"))
      return true;
  }
  return false;
}

}  // namespace mlk
