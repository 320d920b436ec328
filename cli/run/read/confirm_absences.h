// Lists Jobs a second time if a Job that was made is missing.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk::kube {
class Client;
}

namespace mlk {

// `jobs` were listed just now, `owners` at about the same time. If `jobs` lacks a Job that was made for an
// owner, lists the Jobs once more, 2 s later. Adds to `jobs` the missing Jobs that are in the second list,
// and returns their names. If both lists lack a Job, marks its owner with annotations::gone in `owners`. Also
// tries to write this mark to the cluster, so that later commands need no second list (a user who may only
// read cannot write it). If no Job is missing, the function does nothing. Throws ApiError.
std::vector<std::string> confirm_absences(kube::Client& client, const std::string& name_space,
                                          const std::vector<nlohmann::json*>& owners,
                                          std::vector<nlohmann::json>& jobs);

}  // namespace mlk
