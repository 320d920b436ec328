// Characters that JSON writes as two escapes, "\ud83d\ude00", as Python's json.dumps does: yaml-cpp takes
// each half for a character of its own, and refuses it. Pure.
#pragma once

#include <string>
#include <string_view>

namespace mlk {

// Before the parser: the YAML with each pair of escapes in a form that yaml-cpp accepts. It is as long as it
// was, so that lines and columns stay true.
std::string hide_surrogate_pairs(std::string_view yaml);

// After the parser: the text of one scalar, with the character of each pair where the scalar was in double
// quotes, and the escapes as they were written everywhere else.
std::string show_surrogate_pairs(std::string scalar);

}  // namespace mlk
