// --same: a sweep continues with another image, program or other data.
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
  int trials = 0;      // of the sweep
  int candidates = 1;  // number of matching sweeps; this is the newest
  bool other = true;   // it was started with other code than this
};

// Gives the definition the name of the newest sweep of its experiment with the same kin hash (identity.h):
// existing trials stay, and new ones use this code. Nothing if there is no such sweep. Throws ApiError.
std::optional<SameSweep> go_on_with_same(kube::Client& client, const std::string& name_space,
                                         Definition& definition);

// The owner of the newest sweep of its name, if that differs from this one in its code alone. Nothing if this
// very sweep is there, which goes on anyhow. Throws ApiError.
std::optional<nlohmann::json> find_with_other_code(kube::Client& client, const std::string& name_space,
                                                   const Definition& definition);

// Those of the owners of sweeps that have this kin hash, newest first. Pure.
std::vector<nlohmann::json> of_kin(std::vector<nlohmann::json> owners, const std::string& kin);

// Makes it a definition of the sweep with that owner. Pure.
void adopt(Definition& definition, const nlohmann::json& owner);

}  // namespace mlk::sweeps
