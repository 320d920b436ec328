// Looks again for Jobs that were made and are not there.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk::kube {
class Client;
}

namespace mlk {

// `jobs` were listed just now, `owners` at about the same time. If one of the owners lacks a Job that was
// made, lists the Jobs once more, 2 s later. Those that are there after all are added to `jobs`; their names
// are returned. An owner that lacks one in both lists is marked with annotations::gone: here, and on the
// cluster, so that nobody has to look twice again (best effort: who may only read sees it as well). Without a
// missing Job it does nothing. Throws ApiError.
std::vector<std::string> look_twice(kube::Client& client, const std::string& name_space,
                                    const std::vector<nlohmann::json*>& owners,
                                    std::vector<nlohmann::json>& jobs);

}  // namespace mlk
