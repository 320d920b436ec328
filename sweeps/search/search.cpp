#include "sweeps/search/search.h"

#include <algorithm>

namespace mlk::sweeps {

const SearchKind& search_kind(Search::Kind kind) {
  return *std::ranges::find(search_kinds, kind, &SearchKind::kind);
}

const SearchKind* find_search(std::string_view name) {
  const auto found = std::ranges::find(search_kinds, name, &SearchKind::name);
  return found == search_kinds.end() ? nullptr : &*found;
}

std::vector<std::string> names_of_searches() {
  std::vector<std::string> names;
  for (const SearchKind& each : search_kinds) names.emplace_back(each.name);
  return names;
}

std::vector<std::string> names_for_command() {
  std::vector<std::string> names;
  for (const SearchKind& each : search_kinds) {
    if (each.is_in_command) names.emplace_back(each.name);
  }
  return names;
}

std::string_view to_string(Search::Kind kind) { return search_kind(kind).name; }

}  // namespace mlk::sweeps
