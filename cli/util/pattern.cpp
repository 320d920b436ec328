#include "cli/util/pattern.h"

#include <cstdint>

#include <fmt/format.h>
#include <re2/re2.h>

#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

std::shared_ptr<const RE2> compiled(const std::string& text, LetterCase letter_case = LetterCase::matters) {
  constexpr std::int64_t most_memory = 1 << 20;  // limit for the compiled pattern, in bytes
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(most_memory);
  options.set_case_sensitive(letter_case == LetterCase::matters);
  return std::make_shared<const RE2>(text, options);
}

}  // namespace

Pattern::Pattern(const std::string& text, LetterCase letter_case) {
  if (const std::string why = why_no_pattern(text); !why.empty())
    throw Error(ExitCode::usage, "the pattern '" + printable(text) + "' " + why,
                "patterns have RE2's syntax: https://github.com/google/re2/wiki/Syntax");
  compiled_ = compiled(text, letter_case);
}

bool Pattern::is_found_in(std::string_view text) const {
  return RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *compiled_);
}

std::optional<std::string> Pattern::first_group_in(std::string_view text) const {
  if (compiled_->NumberOfCapturingGroups() == 0) return std::nullopt;
  re2::StringPiece found[2];
  const re2::StringPiece all(text.data(), text.size());
  if (!compiled_->Match(all, 0, all.size(), RE2::UNANCHORED, found, 2)) return std::nullopt;
  return std::string(found[1].data() == nullptr ? "" : found[1].data(), found[1].size());
}

std::string why_no_pattern(const std::string& text) {
  if (text.empty()) return "is empty";
  if (text.size() > longest_pattern) return fmt::format("is longer than {} bytes", longest_pattern);
  const std::shared_ptr<const RE2> re = compiled(text);
  return re->ok() ? "" : "is not valid: " + printable(re->error());
}

int groups_in_pattern(const std::string& text) { return compiled(text)->NumberOfCapturingGroups(); }

}  // namespace mlk
