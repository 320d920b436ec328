// The containers of a pod template: the program's, and those that patches put beside it.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// The container of the experiment's program, by its name; nullptr if a patch has left none.
nlohmann::json* main_container(nlohmann::json& pod_spec);

// Makes the containers beside main leave their last words in the pod's status, as main's are, unless they say
// what they leave.
void keep_last_words(nlohmann::json& pod);

}  // namespace mlk
