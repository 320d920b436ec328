// Folders that only their owner may use: the caches and the state of mlk. mlk trusts the files in them.
#pragma once

#include <filesystem>
#include <string>
#include <sys/stat.h>

namespace mlk {

// Whether this user owns a file with this status, and no other user may write to the file.
bool is_own(const struct stat& status);
// Whether this user owns the file at this path, and no other user may write to the file. False if the path is
// missing, a link, or neither a plain file nor a folder.
bool is_own(const std::filesystem::path& path);

// Makes the folder and its missing parents. The folder gets mode 0700, even if it exists already. Throws
// Error{failure} if the folder belongs to another user, is a link, or cannot be made. `hint`: for the error.
void make_own_folder(const std::filesystem::path& folder, const std::string& hint);

// Throws like make_own_folder() for a link, a file, or a folder of another user. A missing folder is no
// error.
void require_own_folder(const std::filesystem::path& folder, const std::string& hint);

// Calls make_own_folder() with the hint for folders of a cache.
void make_cache_folder(const std::filesystem::path& folder);

}  // namespace mlk
