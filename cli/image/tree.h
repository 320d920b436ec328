// What of a folder travels: its files, folders and links, without what ignore files leave out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/image/tar.h"

namespace mlk::image {

struct TreeRules {
  std::vector<std::string> include;  // patterns of paths from the top, which travel in any case
  std::vector<std::string> exclude;  // lines as in an ignore file, which rule over those of the folder
};

struct TreeEntry {
  TarEntry of_tar;
  std::uint64_t size = 0;  // of a file
};

struct Tree {
  std::vector<TreeEntry> entries;  // in the order of the bytes of their paths: a folder before what is in it
  std::vector<std::string> no_files;  // sockets, pipes and devices, which cannot travel
};

// Left out are: what .gitignore and .mlkignore say, of which the latter rules; repositories, virtual
// environments, caches, and files that usually hold passwords. Links are not followed. Throws Error: usage
// for a link that leads out of the folder and for too many files, not_found or failure if a folder cannot be
// read.
Tree list_tree(const std::filesystem::path& folder, const TreeRules& rules);

}  // namespace mlk::image
