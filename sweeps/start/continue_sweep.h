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
  int trials = 0;      // of the sweep
  int candidates = 1;  // number of matching sweeps; `sweep` is the newest
  bool other = true;   // the sweep was started with other code than the code of the definition
};

// Gives the definition the name of the newest sweep of its experiment with the same kin hash (identity.h):
// existing trials stay, and new trials use this code. Nothing if there is no such sweep. Throws ApiError.
std::optional<SameSweep> go_on_with_same(kube::Client& client, const std::string& name_space,
                                         Definition& definition);

// The owner of the newest sweep of this name, if that sweep differs from the definition only in its code.
// Nothing if the sweep of the definition itself exists, since this sweep continues without --same. Throws
// ApiError.
std::optional<nlohmann::json> find_with_other_code(kube::Client& client, const std::string& name_space,
                                                   const Definition& definition);

// The owners of sweeps with this kin hash, newest first. Pure.
std::vector<nlohmann::json> of_kin(std::vector<nlohmann::json> owners, const std::string& kin);

// Changes `definition` into a definition of the sweep with this owner. Pure.
void adopt(Definition& definition, const nlohmann::json& owner);

}  // namespace mlk::sweeps
