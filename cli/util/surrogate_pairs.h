// Characters that JSON writes as two escapes, "\ud83d\ude00", as Python's json.dumps does. yaml-cpp reads
// each half as a separate character and refuses the half. Pure.
#pragma once

#include <string>
#include <string_view>

namespace mlk {

// Call it before parsing. Returns the YAML with each pair of escapes in a form that yaml-cpp accepts. The
// length of the text stays the same, so that lines and columns stay right.
std::string hide_surrogate_pairs(std::string_view yaml);

// Call it for each scalar after parsing. If the scalar was in double quotes, each hidden pair becomes its
// character. In all other scalars, each pair becomes the escapes as they were written.
std::string show_surrogate_pairs(std::string scalar);

}  // namespace mlk
