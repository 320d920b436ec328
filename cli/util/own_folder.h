// Folders that only their owner may use: the caches and the state of mlk, whose files are trusted.
#pragma once

#include <filesystem>
#include <string>
#include <sys/stat.h>

namespace mlk {

// Whether what is there belongs to this user, and nobody else may write to it.
bool is_own(const struct stat& status);
// The same of a plain file or a folder that is no link; false if it is not there.
bool is_own(const std::filesystem::path& path);

// Makes the folder and those above it; it has mode 0700 then. Throws Error{failure}, with `hint`, for one
// that belongs to another user, a link, and what cannot be made.
void make_own_folder(const std::filesystem::path& folder, const std::string& hint);

// Throws as make_own_folder() for a folder of another user, and a link; not for one that is not there.
void require_own_folder(const std::filesystem::path& folder, const std::string& hint);

// The same for the folders of a cache.
void make_cache_folder(const std::filesystem::path& folder);

}  // namespace mlk
