// The searches: how a sweep chooses its points. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sweeps/space/space.h"

namespace mlk::sweeps {

struct Search {
  enum class Kind { grid, random, list, tpe };
  Kind kind = Kind::grid;
  int trials = 0;  // for random and tpe: the number of trials
  std::uint64_t seed = 1;
  std::vector<Point> start{};  // for tpe: points that are tried first, in this order
};

// The properties of a search that do not depend on a space.
struct SearchKind {
  Search::Kind kind;
  std::string_view name;
  bool has_trials;     // needs a number of trials; the identity of the sweep does not contain this number
  bool is_in_command;  // --search may name the search; false for `list`, whose points come from a file
};
inline constexpr std::array<SearchKind, 4> search_kinds{{{Search::Kind::grid, "grid", false, true},
                                                         {Search::Kind::random, "random", true, true},
                                                         {Search::Kind::list, "list", false, false},
                                                         {Search::Kind::tpe, "tpe", true, true}}};

const SearchKind& search_kind(Search::Kind kind);
// nullptr if no search has this name.
const SearchKind* find_search(std::string_view name);
std::vector<std::string> names_of_searches();
std::vector<std::string> names_for_command();  // the names that --search accepts

std::string_view to_string(Search::Kind kind);

}  // namespace mlk::sweeps
