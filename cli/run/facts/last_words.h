// Reads the last words of a program: its termination message, or the end of its log. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

std::string last_line(const std::string& text);
// Makes one line that is safe for a terminal. Replaces the text after `limit` bytes by "...".
std::string line_of(const std::string& text, std::size_t limit = 400);

// Parses the result (CONTRACT.md) in a termination message. Returns null if the message has no result.
nlohmann::json parse_result(const std::string& termination_message);

// Whether the last words say that the program has lost its connection to another program. Such a program may
// have failed only because the other program failed.
bool blames_a_peer(const std::string& message);
// Whether the message only says that another rank has ended: "worker/1 ended with exit code 66".
bool repeats_a_peer(std::string_view message);

}  // namespace mlk
