// What happens to an object on its way in: names, defaults, rules, and what may not change. Pure.
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

// A new object as it will be stored. Throws Refusal 400 or 422.
nlohmann::json admit_new(const Admission& admission, nlohmann::json object);

// `after` as it will be stored in place of `before`: what the server owns stays as it was. `of_status`: only
// status changes; otherwise everything but status. Throws Refusal 409 when resourceVersion or uid do not fit,
// 422 when an immutable field changes.
nlohmann::json admit_change(const Admission& admission, const nlohmann::json& before, nlohmann::json after,
                            bool of_status);

bool is_dns_subdomain(const std::string& text);  // labels and dots, at most 253

}  // namespace mlk::local
