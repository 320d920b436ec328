// What a user can do about a program that may not write or read somewhere, or does not find what is mounted.
// Pure.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// For the last words of a program that the system has denied a file: as whom it ran, what lies there, and the
// key to change, as " (...)"; for one of --local that looks for a mount where a container would have it, that
// it lies elsewhere; empty for other words. `pod`: the spec of its pod.
std::string advice_on_denied(const std::string& said, const nlohmann::json& pod);

}  // namespace mlk
