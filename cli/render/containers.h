// The containers of a pod template: the program's container, and containers that patches add.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// The container of the experiment's program, by its name; nullptr if a patch has removed this container.
nlohmann::json* main_container(nlohmann::json& pod_spec);

// Lets the pod's status show the last output of a failed container other than main. Does not change a
// container that sets terminationMessagePolicy itself.
void capture_last_words(nlohmann::json& pod);

}  // namespace mlk
