// Writes files that a user names. The kind of the file decides how mlk writes it.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <sys/stat.h>

namespace mlk {

// How mlk writes a goal, which is the file that the user named, after all symbolic links. A plain file of
// this user, in a folder where mlk may create files, is replaced atomically and keeps its mode. Any other
// file is written in place: for example a device, a pipe, a file of another user, or a file with several hard
// links.
enum class WriteWay { as_new, replaced, in_place, refused };
struct Goal {
  mode_t mode;         // permissions and file type, as in st_mode
  nlink_t names;       // number of hard links
  bool is_own = true;  // whether this user owns the file
};
WriteWay way_to_write(const std::optional<Goal>& goal);  // nullopt: the goal does not exist. Pure.

// Writes bytes to a goal. Follows links. The umask decides the mode of a new file. If the goal is new or
// replaced, the bytes become visible only in finish(); without finish(), the destructor removes them.
class OutputFile {
 public:
  // Waits for the reader of a pipe. Throws Error: usage for a folder, failure for a goal that cannot be
  // written, interrupted if a signal comes during the wait.
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void put(std::string_view bytes);  // throws Error: failure; interrupted if a signal comes during a wait
  void finish();                     // must be the last call; throws Error: failure

 private:
  [[noreturn]] void fail(int error) const;
  void open_aside(mode_t mode, bool keeps_mode);

  const std::filesystem::path shown_;
  std::filesystem::path goal_, aside_;  // aside_: empty if the goal is written in place
  int file_ = -1;
};

// Writes the whole text to the file. Throws like OutputFile.
void write_user_file(const std::filesystem::path& path, std::string_view text);

}  // namespace mlk
