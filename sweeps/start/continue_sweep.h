// --same: continues a sweep with another image, program or data set.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/search/definition.h"

namespace mlk::kube {
class Client;
}

namespace mlk::sweeps {

struct SameSweep {
  std::string sweep;
  int trials = 0;      // the number of trials of the sweep
  int candidates = 1;  // the number of matching sweeps; `sweep` is the newest of them
  bool other = true;   // the sweep has another name than the definition would give it
};

// Finds the newest sweep that has the same experiment name and kin hash (identity.h), and gives the
// definition the name of this sweep. So the existing trials of the sweep stay, and its new trials use the
// image, the program and the data of the definition. nullopt if there is no such sweep. Throws ApiError.
std::optional<SameSweep> go_on_with_same(kube::Client& client, const std::string& name_space,
                                         Definition& definition);

// The owner of the newest sweep with the name of the experiment, if that sweep differs from the definition
// only in its code. nullopt if the sweep of the definition itself exists, since it continues without --same.
// Throws ApiError.
std::optional<nlohmann::json> find_with_other_code(kube::Client& client, const std::string& name_space,
                                                   const Definition& definition);

// The owners of sweeps with this kin hash, newest first. Pure.
std::vector<nlohmann::json> of_kin(std::vector<nlohmann::json> owners, const std::string& kin);

// Changes `definition` into a definition of the sweep with this owner. Pure.
void adopt(Definition& definition, const nlohmann::json& owner);

}  // namespace mlk::sweeps
