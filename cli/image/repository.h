// What git knows of a folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace mlk::image {

struct Revision {
  std::string commit;  // hexadecimal; empty before the first commit
  std::string branch;  // empty if none is checked out
  bool clean = false;  // the folder has no changes and no files that git does not know
};

// nullopt without git, or if the folder is in no repository. Waits for git, 10 s at most.
std::optional<Revision> revision_of(const std::filesystem::path& folder);

// The same from what `git status --porcelain=v2 --branch` prints. Pure.
Revision parse_revision(const std::string& status);

}  // namespace mlk::image
