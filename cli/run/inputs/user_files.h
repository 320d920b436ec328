// Reads the user's files to which an experiment file refers. The experiment file may come from another
// person, and the files travel to the cluster. So the experiment file may name only files in its own folder,
// unless the user allows more.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace mlk {

struct UserFiles {
  std::filesystem::path folder;                // of the experiment file
  std::vector<std::filesystem::path> allowed;  // further files and folders that may be read: --allow-files
};

// Reads the plain files in the folder `named`, which is relative to the experiment file. Returns their
// contents by name. The files travel in a ConfigMap, whose keys cannot contain folders. Hidden files and
// caches are skipped. The check uses the real path, after symbolic links and "..": a file is refused unless
// it is below the folder of the experiment file (and not hidden there), or is covered by `allowed`. Errors
// begin with `what`. Throws Error: usage, not_found.
std::map<std::string, std::string> read_user_folder(const UserFiles& files, const std::string& named,
                                                    const std::string& what);

// Checks the place of `named` with the rules of read_user_folder(). `named` need not exist. Returns its path.
std::filesystem::path user_folder(const UserFiles& files, const std::string& named, const std::string& what);

// Reads one file of at most `limit` bytes, with the rules of read_user_folder().
std::string read_user_file(const UserFiles& files, const std::string& named, const std::string& what,
                           std::size_t limit);

// Returns the sha256 of one file in hexadecimal digits. The file may have any size, and its place has to
// follow the rules of read_user_folder(). Returns an empty text if the file does not exist.
std::string digest_of_user_file(const UserFiles& files, const std::string& named, const std::string& what);

}  // namespace mlk
