// What people are told of the files that do not travel with their code. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/code/tree.h"

namespace mlk::image {

// One line each: of committed files, of what git ignores, and of usual secret files.
// `tracked`: the paths that git has, in the order of their bytes.
std::vector<std::string> told_of_what_stays(const Tree& tree, const std::vector<std::string>& tracked);

// Whether this is what Git LFS leaves in the place of a file whose content it has not fetched.
bool is_lfs_pointer(std::string_view content);
// Of a file with this many bytes.
bool may_be_lfs_pointer(std::uint64_t size);

}  // namespace mlk::image
