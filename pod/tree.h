// Folders with all that is in them. Each function that returns text returns what went wrong, or an empty
// text.
#pragma once

#include <string>
#include <vector>

namespace mlk::pod {

// Makes the folder and those above it. False with errno if it cannot.
bool make_folders(const std::string& path);

// The names in a folder, without "." and "..". False with errno if the folder cannot be read.
bool names_in(const std::string& folder, std::vector<std::string>& names);

enum class Existing { stays, is_replaced };

// Copies a file, or a folder with all that is in it, to `to`. Files of other kinds, such as sockets, are left
// out. Files that exist stay or are replaced; a file is complete before it gets its name.
std::string copy_tree(const std::string& from, const std::string& to, Existing existing);

// Removes a file, or a folder with all that is in it. Follows no links.
std::string remove_tree(const std::string& path);

}  // namespace mlk::pod
