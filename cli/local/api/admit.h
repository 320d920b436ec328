// Admission of an object: names, defaults, rules, and immutable fields. Pure.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "cli/local/state/kinds.h"
#include "cli/util/time.h"

namespace mlk::local {

struct Admission {
  const Kind& kind;
  std::string name_space;
  std::string uid;            // for a new object
  std::string random_suffix;  // for generateName
  Time now;
};

// Returns a new object as it will be stored. Throws StatusError 400 or 422.
nlohmann::json admit_new(const Admission& admission, nlohmann::json object);

// Returns `after` as it will be stored in place of `before`. Fields that the server owns keep their values.
// `of_status`: the change applies only to the status. Otherwise it applies to all fields except the status.
// Throws StatusError: 400 if `after` has another name, 409 if resourceVersion or uid do not match, 422 if an
// immutable field changes or a rule is broken.
nlohmann::json admit_change(const Admission& admission, const nlohmann::json& before, nlohmann::json after,
                            bool of_status);

bool is_dns_subdomain(const std::string& text);  // labels joined by dots, at most 253 characters

}  // namespace mlk::local
