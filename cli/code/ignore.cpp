#include "cli/code/ignore.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "cli/util/text.h"

namespace mlk::image {
namespace {

using Parts = std::vector<std::string>;
using PartsOfPath = std::vector<std::string_view>;

constexpr char any_parts[] = "**";

PartsOfPath parts_of(std::string_view path) {
  PartsOfPath out;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) out.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// Whether `c` is in the class at `at`, such as [:digit:]. Moves `at` behind the class. nullopt if there is no
// class at `at`.
std::optional<bool> in_class(std::string_view pattern, std::size_t& at, unsigned char c) {
  struct Class {
    std::string_view name;
    int (*has)(int);
  };
  static constexpr Class classes[] = {
      {"alnum", std::isalnum}, {"alpha", std::isalpha}, {"blank", std::isblank}, {"cntrl", std::iscntrl},
      {"digit", std::isdigit}, {"graph", std::isgraph}, {"lower", std::islower}, {"print", std::isprint},
      {"punct", std::ispunct}, {"space", std::isspace}, {"upper", std::isupper}, {"xdigit", std::isxdigit}};
  if (!pattern.substr(at).starts_with("[:")) return std::nullopt;
  const std::size_t end = pattern.find(":]", at + 2);
  if (end == pattern.npos) return std::nullopt;
  const std::string_view name = pattern.substr(at + 2, end - at - 2);
  for (const Class& each : classes) {
    if (each.name != name) continue;
    at = end + 2;
    return c < 0x80 && each.has(c) != 0;
  }
  return std::nullopt;
}

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool is_same(char a, char b, Case letters) {
  return a == b || (letters == Case::is_ignored && lower(a) == lower(b));
}

// Whether `c` is in the set at `at`, such as [a-z] or [!0-9]. Moves `at` behind the set. nullopt if the set
// has no end: then the bracket is a literal character.
std::optional<bool> in_set(std::string_view pattern, std::size_t& at, char c, Case letters) {
  std::size_t i = at + 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  const auto next = [&] {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    return static_cast<unsigned char>(pattern[i++]);
  };
  const auto value = static_cast<unsigned char>(c);
  const auto other =
      static_cast<unsigned char>(std::isupper(value) != 0 ? std::tolower(value) : std::toupper(value));
  const bool has_other = letters == Case::is_ignored && other != value;
  for (bool first = true; i < pattern.size() && (first || pattern[i] != ']'); first = false) {
    std::size_t again = i;
    if (const std::optional<bool> in = in_class(pattern, i, value)) {
      found = found || *in || (has_other && in_class(pattern, again, other).value_or(false));
      continue;
    }
    const unsigned char low = next();
    unsigned char high = low;
    if (i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']') {
      ++i;
      high = next();
    }
    found = found || (low <= value && value <= high) || (has_other && low <= other && other <= high);
  }
  if (i >= pattern.size()) return std::nullopt;
  at = i + 1;
  return found != negated;
}

// Whether the element of the pattern at `at` matches `c`. Moves `at` behind the element, which is no '*'.
bool matches_character(std::string_view pattern, std::size_t& at, char c, Case letters) {
  if (pattern[at] == '?') return ++at, true;
  if (pattern[at] == '[') {
    if (const std::optional<bool> in = in_set(pattern, at, c, letters)) return *in;
  }
  if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
  return is_same(pattern[at++], c, letters);
}

// The length of every name that matches this pattern, which must not have a '*'.
std::size_t length_of_match(std::string_view pattern) {
  std::size_t length = 0;
  for (std::size_t at = 0; at < pattern.size(); ++length)
    (void)matches_character(pattern, at, '\0', Case::counts);
  return length;
}

// Matches one part of a path. Only the last '*' is ever retried, so the time is at most the product of the
// lengths of pattern and text.
bool matches_part(std::string_view pattern, std::string_view text, Case letters) {
  std::size_t p = 0, t = 0, star = pattern.npos, tried = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      // The pattern after the last '*' can match only the end of the text.
      if (pattern.find('*', p) == pattern.npos) {
        const std::size_t length = length_of_match(pattern.substr(p));
        if (length > text.size() - t) return false;
        t = text.size() - length;
      }
      tried = t;
      continue;
    }
    std::size_t next = p;
    if (p < pattern.size() && matches_character(pattern, next, text[t], letters)) {
      p = next;
      ++t;
    } else if (star != pattern.npos) {
      p = star;
      t = ++tried;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

// Matches a whole path part by part. Only the last "**" is retried. "**" at the end of the pattern matches
// one part or more.
bool matches_path(const Parts& pattern, std::span<const std::string_view> path, Case letters) {
  std::size_t p = 0, t = 0, star = pattern.size(), tried = 0;
  bool has_star = false;
  while (t < path.size()) {
    if (p < pattern.size() && pattern[p] == any_parts) {
      if (p + 1 == pattern.size()) return true;
      star = ++p;
      tried = t;
      has_star = true;
    } else if (p < pattern.size() && matches_part(pattern[p], path[t], letters)) {
      ++p;
      ++t;
    } else if (has_star) {
      p = star;
      t = ++tried;
    } else {
      return false;
    }
  }
  return p == pattern.size();
}

// Removes the carriage return and the blanks at the end of a line. Stops at a blank that a backslash escapes.
std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  while (line.ends_with(' ')) {
    const std::string_view before = line.substr(0, line.size() - 1);
    const std::size_t other = before.find_last_not_of('\\');
    const std::size_t backslashes = before.size() - (other == before.npos ? 0 : other + 1);
    if (backslashes % 2 == 1) break;
    line = before;
  }
  return line;
}

// The pattern that matches this name and no other name.
std::string literal(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

void IgnoreRules::add(std::string_view text, const std::string& folder) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  for (const std::string& whole : split(std::string(text), '\n')) {
    std::string_view line = without_line_end(whole);
    if (line.empty() || line.starts_with('#')) continue;
    Rule rule;
    rule.keeps = line.starts_with('!');
    if (rule.keeps) line.remove_prefix(1);
    rule.only_folders = line.ends_with('/');
    if (rule.only_folders) line.remove_suffix(1);
    const bool has_place = line.find('/') != line.npos;
    for (const std::string_view part : parts_of(folder)) rule.parts.push_back(literal(part));
    if (!has_place) rule.parts.emplace_back(any_parts);
    const PartsOfPath own = parts_of(line);
    if (own.empty()) continue;
    rule.parts.insert(rule.parts.end(), own.begin(), own.end());
    const bool is_for_any_folder = rule.parts.size() == 2 && rule.parts.front() == any_parts;
    if (is_for_any_folder && literal(rule.parts.back()) == rule.parts.back()) rule.name = rule.parts.back();
    rules_.push_back(std::move(rule));
  }
}

std::optional<bool> IgnoreRules::leaves_out(const std::string& path, bool is_folder) const {
  // Most rules are for a name in any folder, and need only the name. mlk splits the path only for the other
  // rules.
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  PartsOfPath parts;
  const auto matches = [&](const Rule& rule) {
    if (rule.only_folders && !is_folder) return false;
    if (!rule.name.empty())
      return std::equal(rule.name.begin(), rule.name.end(), name.begin(), name.end(),
                        [&](char a, char b) { return is_same(a, b, case_); });
    if (rule.parts.size() == 2 && rule.parts.front() == any_parts)
      return matches_part(rule.parts.back(), name, case_);
    if (parts.empty()) parts = parts_of(path);
    return matches_path(rule.parts, parts, case_);
  };
  const auto last = std::find_if(rules_.rbegin(), rules_.rend(), matches);
  if (last == rules_.rend()) return std::nullopt;
  return !last->keeps;
}

Includes::Includes(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const PartsOfPath parts = parts_of(pattern);
    Pattern& added = patterns_.emplace_back();
    added.text = pattern;
    added.parts.assign(parts.begin(), parts.end());
    std::erase(added.parts, ".");
  }
}

bool Includes::matches(const std::string& path) const {
  if (patterns_.empty()) return false;
  const PartsOfPath parts = parts_of(path);
  bool any = false;
  for (const Pattern& pattern : patterns_) {
    // If a folder matches, everything in the folder is included.
    bool matches = false;
    for (std::size_t size = 1; size <= parts.size() && !matches; ++size)
      matches = matches_path(pattern.parts, std::span(parts).first(size), Case::counts);
    if (matches) pattern.matched = any = true;
  }
  return any;
}

bool Includes::may_match_below(const std::string& folder) const {
  const PartsOfPath parts = parts_of(folder);
  return std::any_of(patterns_.begin(), patterns_.end(), [&](const Pattern& pattern) {
    for (std::size_t i = 0; i < parts.size() && i < pattern.parts.size(); ++i) {
      if (pattern.parts[i] == any_parts) return true;
      if (!matches_part(pattern.parts[i], parts[i], Case::counts)) return false;
    }
    return true;
  });
}

std::vector<std::string> Includes::vain() const {
  std::vector<std::string> out;
  for (const Pattern& pattern : patterns_) {
    if (!pattern.matched) out.push_back(pattern.text);
  }
  return out;
}

}  // namespace mlk::image
