// Lets programs in the pods find the Python packages of code.python. Pure.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

inline constexpr char python_scripts[] = "/mlk/python/bin";  // programs of the packages
inline constexpr char base_python_path[] =
    "base_python_path";  // key in CodeArchive::source: PYTHONPATH of the base image

// Extends PYTHONPATH and PATH in the list of variables: first the packages, then the present value. In
// PYTHONPATH, `of_base` follows, which is the PYTHONPATH of the base image. Adds no missing variable, because
// the image that mlk has built sets both variables. If `on_machine` is true, there is no image, so a missing
// PYTHONPATH is added.
void find_packages(nlohmann::json& environment, const std::string& of_base, bool on_machine);

}  // namespace mlk
