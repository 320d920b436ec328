// Lists of indexes in the notation of a Job's status. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mlk {

inline constexpr int most_ranks = 100000;

// A whole number, or `otherwise`.
int parse_int(std::string_view text, int otherwise);

std::string index_list(const std::vector<int>& sorted);  // "0-2,5"

// "0,2-4" -> {0, 2, 3, 4}; invalid parts are left out. At most `most_ranks` numbers.
std::set<int> parse_indexes(std::string_view text);

// The number at position `index` of such a list; `index` itself if the list is shorter.
int number_of_index(std::string_view list, int index);

}  // namespace mlk
