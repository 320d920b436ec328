// The pods that the Job controller creates. Pure.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk::local {

struct NewPod {
  int index;
  int failures;  // counted failures of this index so far
  int ignored;   // failures of this index so far, ignored by a rule
};

// A pod of the Job as the controller creates it; its name is <job>-<index>-<suffix>.
nlohmann::json pod_of(const nlohmann::json& job, const NewPod& pod, const std::string& suffix);

}  // namespace mlk::local
