// Files that a user asks for by name: written as what they are.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <sys/stat.h>

namespace mlk {

// How a goal is written, from what is there (links followed): a plain file of one's own is replaced at once
// and keeps its mode; a device, a pipe, and a file that has other names or owners, is written in its place.
enum class WriteWay { as_new, replaced, in_place, refused };
struct Goal {
  mode_t mode;         // with its type
  nlink_t names;       // of a file
  bool is_own = true;  // of this user
};
WriteWay way_to_write(const std::optional<Goal>& goal);  // nullopt: nothing is there. Pure.

// A goal of plain bytes. Links are followed, the umask counts for a new file, and where the goal is replaced
// nothing of it is there before finish(), and nothing stays beside it without.
class OutputFile {
 public:
  // Waits for the reader of a pipe. Throws Error: usage for a folder, failure for what cannot be written.
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void put(std::string_view bytes);  // throws Error: failure, interrupted if a signal comes while it waits
  void finish();                     // last

 private:
  [[noreturn]] void fail(int error) const;
  void open_aside(mode_t mode, bool keeps_mode);

  const std::filesystem::path shown_;
  std::filesystem::path goal_, aside_;  // aside_: empty if it is written in its place
  int file_ = -1;
};

// The whole text at once. Throws as OutputFile.
void write_user_file(const std::filesystem::path& path, std::string_view text);

}  // namespace mlk
