// Folders that only their owner may use: the caches and the state of mlk. mlk trusts their files.
#pragma once

#include <filesystem>
#include <string>
#include <sys/stat.h>

namespace mlk {

// Whether the file belongs to this user, and nobody else may write to it.
bool is_own(const struct stat& status);
// As above, for the file at a path. False if the path is missing, a link, or neither a plain file nor a
// folder.
bool is_own(const std::filesystem::path& path);

// Makes the folder and its missing parents; the folder gets mode 0700. Throws Error{failure}, with `hint`, if
// the folder belongs to another user, is a link, or cannot be made.
void make_own_folder(const std::filesystem::path& folder, const std::string& hint);

// Throws like make_own_folder() for a folder of another user and for a link, but not for a missing folder.
void require_own_folder(const std::filesystem::path& folder, const std::string& hint);

// make_own_folder() for folders of a cache, with a hint for caches.
void make_cache_folder(const std::filesystem::path& folder);

}  // namespace mlk
