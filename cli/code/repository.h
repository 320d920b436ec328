// Reads git's information about a folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlk::image {

struct Revision {
  std::string commit;  // hexadecimal; empty before the first commit
  std::string branch;  // empty if no branch is checked out
  bool clean = false;  // the folder has no changes and no untracked files
};

// The revision of the repository that contains the folder. nullopt if git is missing or fails, if there is no
// repository, or if harmless_settings() returns nullopt. Waits for git, 10 s at most per call of git.
std::optional<Revision> revision_of(const std::filesystem::path& folder);

// Settings with which git starts none of the programs in the configuration of the repository. `names`: the
// settings of filters there (`git config --null --name-only --get-regexp '^filter[.]'`). nullopt if a setting
// cannot be overruled. Pure.
std::optional<std::vector<std::string>> harmless_settings(const std::string& names);

// The paths in the folder that git tracks, in the order of their bytes. Empty if git is missing or fails.
// Waits for git, 10 s at most.
std::vector<std::string> tracked_files(const std::filesystem::path& folder);

// The settings by which git ignores files, in addition to the files .gitignore in the folders of a
// repository.
struct IgnoreSettings {
  std::vector<std::filesystem::path>
      files{};  // the user's file for all repositories, then the repository's file, which has priority
  bool ignores_case = false;
  bool are_known = true;  // false: git's settings may name other ignore files, but git gave no answer
};

// The settings of the repository with this top folder. If git gives no answer (there is no git, or git
// refuses the repository of another user), the files are those that git usually reads. Waits for git.
IgnoreSettings ignore_settings(const std::filesystem::path& repository);

// Whether a file of git's settings may change which files git ignores, or includes another file that may.
// Pure.
bool may_change_ignoring(std::string_view git_config);

// The revision in the output of `git status --porcelain=v2 --branch`. Pure.
Revision parse_revision(const std::string& status);

}  // namespace mlk::image
