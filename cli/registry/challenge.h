// The challenges in a 401 answer of a registry (RFC 9110, section 11.6.1; RFC 6750). Pure.
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

// The challenges in the values of WWW-Authenticate. The first part that cannot be parsed ends the list. At
// most 16 challenges and 16 parameters of each are read.
std::vector<Challenge> parse_challenges(const std::string& header);

// The challenge that mlk answers: bearer, or else basic.
std::optional<Challenge> best_of(const std::vector<Challenge>& challenges);

}  // namespace mlk::registry
