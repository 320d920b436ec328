// Patterns of paths that do not travel, as gitignore(5) describes them, and patterns of paths that travel
// nevertheless. Pure.
#pragma once

#include <atomic>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlk::image {

// Whether "A" differs from "a". `is_ignored` ignores case only for the letters of ASCII, as in git.
enum class Case { counts, is_ignored };

// Paths are relative to the top folder, with '/' between their parts.
class IgnoreRules {
 public:
  explicit IgnoreRules(Case letters = Case::counts) : case_(letters) {}

  // Adds the lines of an ignore file in `folder` ("" is the top folder). The lines of a later call have
  // priority over those of earlier calls.
  void add(std::string_view text, const std::string& folder);

  // Whether the last matching rule leaves the path out; nullopt if no rule matches. The caller does not ask
  // for paths in a folder that is left out.
  std::optional<bool> leaves_out(const std::string& path, bool is_folder) const;

 private:
  struct Rule {
    std::vector<std::string> parts;  // "**" matches any number of parts
    std::string name{};              // the name in "**/name", if the name is no pattern
    bool keeps = false, only_folders = false;
  };
  Case case_;
  std::vector<Rule> rules_;
};

// Patterns of paths that travel although a rule leaves out the path or a folder above it. Safe from several
// threads.
class Includes {
 public:
  explicit Includes(const std::vector<std::string>& patterns);

  bool matches(const std::string& path) const;
  // Whether a path in this folder may match.
  bool may_match_below(const std::string& folder) const;
  // The patterns for which matches() was never true.
  std::vector<std::string> vain() const;

 private:
  struct Pattern {
    std::string text;
    std::vector<std::string> parts;
    mutable std::atomic<bool> matched = false;
  };
  std::deque<Pattern> patterns_;
};

}  // namespace mlk::image
