// --same: a sweep goes on with another image, another program or other data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/definition.h"

namespace mlk::kube {
class Client;
}

namespace mlk::sweeps {

struct SameSweep {
  std::string sweep;
  int trials = 0;      // that it has
  int candidates = 1;  // sweeps of which it is the newest
  bool other = true;   // it has begun with other code than this
};

// Gives the definition the name of the newest sweep of its experiment that is of its kin (identity.h): trials
// that this sweep has stay as they are, and new ones run with this code. Nothing when there is no such sweep.
// Throws ApiError.
std::optional<SameSweep> go_on_with_same(kube::Client& client, const std::string& name_space,
                                         Definition& definition);

// Of the owners of sweeps those that are of the kin, newest first. Pure.
std::vector<nlohmann::json> of_kin(std::vector<nlohmann::json> owners, const std::string& kin);

// Makes it a definition of the sweep with that owner. Pure.
void adopt(Definition& definition, const nlohmann::json& owner);

}  // namespace mlk::sweeps
