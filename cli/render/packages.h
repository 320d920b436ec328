// How programs in the pods find the packages of Python that code.python names. Pure.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

inline constexpr char python_scripts[] = "/mlk/python/bin";     // the programs of the packages
inline constexpr char base_python_path[] = "base_python_path";  // in CodeArchive::source: of the image below

// Extends what the list of variables says of PYTHONPATH and PATH: packages come first, then what is there,
// then `of_base`, the PYTHONPATH of the image below. What is not there the image says, which mlk has built;
// on this machine no image is started.
void find_packages(nlohmann::json& environment, const std::string& of_base, bool on_machine);

}  // namespace mlk
