// Files of the user's that an experiment file names. The file may come from somebody else: what it names
// travels to the cluster, so it reaches no further than its own folder unless the user himself says so.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace mlk {

struct UserFiles {
  std::filesystem::path folder;                // of the experiment file
  std::vector<std::filesystem::path> allowed;  // files and folders that may be read as well: --allow-files
};

// The plain files of the folder that `named` means, seen from the experiment file, by their names: they
// travel in a ConfigMap, whose keys cannot name folders. Hidden files and caches are passed over. Where a
// path really lies decides, after symbolic links and "..": a file that is neither below the folder of the
// experiment file (and not hidden there) nor allowed is refused. Errors begin with `what`. Throws Error:
// usage, not_found.
std::map<std::string, std::string> read_user_folder(const UserFiles& files, const std::string& named,
                                                    const std::string& what);

// One file of at most `limit` bytes, by the same rules.
std::string read_user_file(const UserFiles& files, const std::string& named, const std::string& what,
                           std::size_t limit);

}  // namespace mlk
