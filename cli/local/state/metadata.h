// What the stored objects say about themselves: names, uids, finalizers, and whether a pod has ended. Also
// the random parts of new objects.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace mlk::local {

std::string new_uid();                             // a version 4 UUID
std::string uid_of(const nlohmann::json& object);  // throws nlohmann::json::out_of_range
std::string random_suffix();                       // five characters without vowels, as Kubernetes makes them

// In the functions below, a missing field counts as empty. Returned references point into the object.
const std::string& name_of(const nlohmann::json& object);
const std::string& namespace_of(const nlohmann::json& object);  // empty for objects without a namespace

bool has_finalizer(const nlohmann::json& object, const char* name);
void drop_finalizer(nlohmann::json& object, const char* name);

bool has_ended(const nlohmann::json& pod);  // the phase is Succeeded or Failed

}  // namespace mlk::local
