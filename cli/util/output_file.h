// Writes files that a user names, according to their kind.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <sys/stat.h>

namespace mlk {

// How mlk writes a goal. The existing file decides (links are followed): a plain file of this user is
// replaced atomically and keeps its mode; a device, a pipe, and a file with more hard links or another owner
// are written in place.
enum class WriteWay { as_new, replaced, in_place, refused };
struct Goal {
  mode_t mode;         // mode with the file type
  nlink_t names;       // number of hard links
  bool is_own = true;  // it belongs to this user
};
WriteWay way_to_write(const std::optional<Goal>& goal);  // nullopt: the goal does not exist. Pure.

// Writes plain bytes to a goal. Follows links, and gives a new file its mode by the umask. If the goal is
// replaced, no new byte is visible before finish(), and without finish() no temporary file stays.
class OutputFile {
 public:
  // Waits for the reader of a pipe. Throws Error: usage for a folder, failure for a goal that cannot be
  // written.
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void put(std::string_view bytes);  // throws Error: failure, interrupted if a signal comes while it waits
  void finish();                     // call it last

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
