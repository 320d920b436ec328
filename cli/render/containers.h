// The containers of a pod template: the program's container, and containers that patches add.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// The container of the experiment's program, by its name; nullptr if a patch has removed this container.
nlohmann::json* main_container(nlohmann::json& pod_spec);

// If a container other than main fails, its last output appears in the pod's status. The policy of a
// container that sets terminationMessagePolicy itself is not changed.
void capture_last_words(nlohmann::json& pod);

}  // namespace mlk
