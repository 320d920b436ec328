// Advice for a program that may not read or write a file, or does not find a mounted folder. Pure.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// Returns advice as " (...)". If the last words `said` show that the program may not read or write a file,
// the advice names the key to change, and the cause: the user as whom the program ran, or the read-only
// mount. If a program under --local does not find a mount at the path that the mount has in containers, the
// advice says that the mount lies elsewhere. Empty for other words. `pod`: the spec of the program's pod.
std::string advice_on_denied(const std::string& said, const nlohmann::json& pod);

}  // namespace mlk
