// What git knows of a folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlk::image {

struct Revision {
  std::string commit;  // hexadecimal; empty before the first commit
  std::string branch;  // empty if none is checked out
  bool clean = false;  // the folder has no changes and no files that git does not know
};

// nullopt without git, or if the folder is in no repository. Waits for git, 10 s at most.
std::optional<Revision> revision_of(const std::filesystem::path& folder);

// The settings that keep git from starting programs which the configuration of the repository names, from the
// names of those that it has for filters (`git config --null --name-only --get-regexp '^filter[.]'`). nullopt
// if one of them cannot be overruled. Pure.
std::optional<std::vector<std::string>> harmless_settings(const std::string& names);

// The paths that git has of the folder, in the order of their bytes; empty without git. Waits for it, 10 s at
// most.
std::vector<std::string> tracked_files(const std::filesystem::path& folder);

// What git ignores by, beside the files .gitignore in the folders of a repository.
struct IgnoreSettings {
  std::vector<std::filesystem::path>
      files{};  // the user's for all repositories, then the repository's, which rules
  bool ignores_case = false;
};

// Of the repository with this top folder; of a folder that is none for git, and without git: nothing. Waits
// for git.
IgnoreSettings ignore_settings(const std::filesystem::path& repository);

// Whether a file of git's settings may say anything of what it ignores, or names another file that may. Pure.
bool may_change_ignoring(std::string_view git_config);

// The same as revision_of() from what `git status --porcelain=v2 --branch` prints. Pure.
Revision parse_revision(const std::string& status);

}  // namespace mlk::image
