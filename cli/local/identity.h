// Random parts of names.
#pragma once

#include <string>

namespace mlk::local {

std::string new_uid();        // a version 4 UUID
std::string random_suffix();  // five characters without vowels, as Kubernetes makes them

}  // namespace mlk::local
