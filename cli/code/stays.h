// Makes the messages about files that do not travel with the code. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/code/tree.h"

namespace mlk::image {

// At most four lines: about committed files, about files that git ignores, about files that usually hold
// secrets, and a warning if mlk does not know which files git's settings ignore. `tracked`: the paths that
// git tracks, in the order of their bytes.
std::vector<std::string> describe_what_stays(const Tree& tree, const std::vector<std::string>& tracked);

// Whether `content` is a pointer, which Git LFS writes in the place of a file that was not fetched.
bool is_lfs_pointer(std::string_view content);
// Whether a file of `size` bytes may be a pointer of Git LFS.
bool may_be_lfs_pointer(std::uint64_t size);

}  // namespace mlk::image
