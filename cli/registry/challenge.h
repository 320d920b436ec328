// What a registry asks for when it answers 401 (RFC 9110, section 11.6.1; RFC 6750). Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mlk::registry {

struct Challenge {
  std::string scheme;                             // in lower-case letters: "basic", "bearer"
  std::map<std::string, std::string> parameters;  // realm, service, scope; names in lower-case letters
};

// The challenges in the values of WWW-Authenticate. What cannot be read ends the list; at most 16 of them and
// 16 parameters each are read.
std::vector<Challenge> parse_challenges(const std::string& header);

// The one that mlk can answer: bearer, or else basic.
std::optional<Challenge> best_of(const std::vector<Challenge>& challenges);

}  // namespace mlk::registry
