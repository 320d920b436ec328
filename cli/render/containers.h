// The containers of a pod template: the program's container, and containers that patches add.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// The container of the experiment's program, by its name; nullptr if a patch has removed this container.
nlohmann::json* main_container(nlohmann::json& pod_spec);

// Makes the containers beside main write their last output into the pod's status, as main does. A container
// that sets a policy itself keeps this policy.
void capture_last_words(nlohmann::json& pod);

}  // namespace mlk
