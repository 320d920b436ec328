// Patterns of files that do not travel, as gitignore(5) describes them. Pure.
#pragma once

#include <atomic>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlk::image {

// Whether "A" is another letter than "a". Where it is not, that holds for the letters of ASCII, as for git.
enum class Case { counts, is_ignored };

// Paths are relative to the top folder, with '/' between their parts.
class IgnoreRules {
 public:
  explicit IgnoreRules(Case letters = Case::counts) : case_(letters) {}

  // The lines of an ignore file in `folder` ("" is the top folder), which rule over those added before.
  void add(std::string_view text, const std::string& folder);

  // Whether the last rule that matches leaves the path out; nullopt if none matches. What lies in a folder
  // that is left out is not asked for.
  std::optional<bool> leaves_out(const std::string& path, bool is_folder) const;

 private:
  struct Rule {
    std::vector<std::string> parts;  // "**" stands for any number of parts
    std::string name{};              // that of "**/name", if it is no pattern
    bool keeps = false, only_folders = false;
  };
  Case case_;
  std::vector<Rule> rules_;
};

// Paths that travel although a rule leaves them out, or a folder in which they lie. Safe from several
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
