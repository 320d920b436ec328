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
  int trials = 0;  // of random and tpe: how many in all
  std::uint64_t seed = 1;
  std::vector<Point> start{};  // of tpe: tried first, in this order
};

// What is known of a search before it has a space.
struct SearchKind {
  Search::Kind kind;
  std::string_view name;
  bool has_trials;     // needs a number of trials, which is no part of the sweep's identity
  bool is_in_command;  // --search may name it; the points of `list` come from a file, so `points` names it
};
inline constexpr std::array<SearchKind, 4> search_kinds{{{Search::Kind::grid, "grid", false, true},
                                                         {Search::Kind::random, "random", true, true},
                                                         {Search::Kind::list, "list", false, false},
                                                         {Search::Kind::tpe, "tpe", true, true}}};

const SearchKind& search_kind(Search::Kind kind);
// nullptr if there is no such search.
const SearchKind* find_search(std::string_view name);
std::vector<std::string> names_of_searches();
std::vector<std::string> names_for_command();  // of those that --search may name

std::string_view to_string(Search::Kind kind);

}  // namespace mlk::sweeps
