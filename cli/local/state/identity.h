// The identity of objects: their uid, and the random parts of names.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace mlk::local {

std::string new_uid();                             // a version 4 UUID
std::string uid_of(const nlohmann::json& object);  // throws nlohmann::json::out_of_range
std::string random_suffix();                       // five characters without vowels, as Kubernetes makes them

}  // namespace mlk::local
