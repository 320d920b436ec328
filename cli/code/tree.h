// Lists the files, folders and links of a folder that travel with a run. Rules leave out the other paths, for
// example the rules in .mlkignore and .gitignore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/code/folder.h"
#include "cli/image/tar.h"

namespace mlk::image {

struct TreeRules {
  std::vector<std::string> include;  // patterns; each matching path travels, unless it is in `never`
  std::vector<std::string> exclude;  // lines as in .gitignore; win over the folder's ignore files
  std::vector<std::string> never;    // paths that never travel
};

struct TreeEntry {
  TarEntry of_tar;
  std::uint64_t size = 0;  // of a file
  Stamp stamp{};           // of a file
};

struct Tree {
  std::vector<TreeEntry>
      entries{};  // in the order of the bytes of their paths: a folder comes before its content
  std::vector<std::string> no_files{};  // sockets, pipes and devices, which cannot travel
  std::vector<std::string> vain{};      // patterns of `include` that match nothing
  // Two kinds of paths that do not travel, in the order of their bytes. A folder has a slash at its end.
  // `secrets`: hidden names and files that usually hold secrets. `ignored`: paths that git ignores.
  std::vector<std::string> secrets{}, ignored{};
  bool are_ignored_known = true;  // false: mlk does not know which files git's settings ignore
};

inline constexpr std::size_t most_tree_entries = 100'000;  // files, links and folders

// Leaves out caches, virtual environments, folders of version control and other files of tools, files that
// mlk has written, hidden names (except .gitignore and a few others that describe the folder) and files that
// usually hold secrets. Leaves out paths by the rules in files .mlkignore, and then paths that git ignores.
// To know what git ignores, mlk reads .git/info/exclude, the user's file for all repositories,
// core.ignoreCase, and each .gitignore in the folder, in its subfolders, and in the folders above it up to
// the top of the repository. Does not follow links. Throws Error{usage} for a link that leads out of the
// folder, for too many files, and for paths that are too long or too deep. Throws Error{not_found} or
// Error{failure} if a folder cannot be read.
Tree list_tree(const std::filesystem::path& folder, const TreeRules& rules,
               std::size_t most_entries = most_tree_entries);

}  // namespace mlk::image
