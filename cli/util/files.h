// Reads files up to a maximum size, and replaces files as a whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>

namespace mlk {

// The whole file, at most `limit` bytes. Throws Error: not_found if the file does not exist; usage for a
// folder, a device other than /dev/null, or a file over the limit; failure if the file cannot be read. Also
// reads a pipe to its end; throws interrupted if a signal comes meanwhile.
std::string read_file(const std::filesystem::path& path, std::size_t limit);

// Reads an open file, pipe or socket to its end, at most `limit` bytes. `name`: the name of the descriptor in
// errors. Waits for the writer of a pipe or socket. Throws Error: usage beyond the limit, failure if the
// descriptor cannot be read, interrupted if a signal comes.
std::string read_descriptor(int descriptor, const std::string& name, std::size_t limit);

// Calls `visit` for each entry of the folder, in any order. Throws Error: not_found if there is no such
// folder, failure if the folder cannot be read. Passes on what `visit` throws.
void visit_folder(const std::filesystem::path& folder,
                  const std::function<void(const std::filesystem::directory_entry&)>& visit);

// Replaces the file atomically: readers see either the old text or the new one, even after a crash. Throws
// Error{failure}.
void write_file_atomically(const std::filesystem::path& path, std::string_view text, mode_t mode = 0644);
// Replaces the file atomically, but does not wait until the text is on the disk. After a crash of the system
// the file may have any content, so all readers of the file must check the content.
void write_checked_file(const std::filesystem::path& path, std::string_view text, mode_t mode = 0644);

// Returns an unpredictable path in the folder of `path`, for a temporary file that is renamed to `path` when
// it is complete. Open the temporary file with O_EXCL and O_NOFOLLOW.
std::filesystem::path beside(const std::filesystem::path& path);

// The destructor removes the folder at this path with all its content. It is no error if the folder does not
// exist.
class FolderToRemove {
 public:
  explicit FolderToRemove(std::filesystem::path path) : path_(std::move(path)) {}
  ~FolderToRemove();
  FolderToRemove(const FolderToRemove&) = delete;
  FolderToRemove& operator=(const FolderToRemove&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

// $XDG_STATE_HOME/mlk, $XDG_CONFIG_HOME/mlk, $XDG_CACHE_HOME/mlk, or their defaults below $HOME. Throw
// Error{failure} if a default is needed and there is no $HOME.
std::filesystem::path state_home();
std::filesystem::path config_home();
std::filesystem::path cache_home();
// Like state_home(), config_home() and cache_home(), but return nullopt instead of throwing an error.
std::optional<std::filesystem::path> state_home_if_any();
std::optional<std::filesystem::path> config_home_if_any();
std::optional<std::filesystem::path> cache_home_if_any();

}  // namespace mlk
