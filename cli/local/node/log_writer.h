// Writes what a program prints as containerd does: one stamp a line, in two files of bounded size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace mlk::local {

class LogFile {
 public:
  // When `path` reaches half of `limit` bytes it is renamed to `path`.1, in place of an older one.
  LogFile(std::filesystem::path path, std::uint64_t limit);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Whole lines. On a full disk they are lost whole, and the next that finds room comes after a line that
  // says how many were.
  void append(std::string_view lines);

 private:
  void open();
  bool write(std::string_view lines);
  const std::filesystem::path path_;
  const std::uint64_t limit_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t lost_ = 0;  // lines since the last that could be written
};

// One of the two outputs of a program.
class LogStream {
 public:
  LogStream(LogFile& file, std::string name) : file_(file), name_(std::move(name)) {}
  void feed(std::string_view bytes);  // complete lines go out, and long ones in parts
  void finish();                      // what is left without an end of line

 private:
  void put(std::string& out, std::string_view text, bool full) const;
  LogFile& file_;
  const std::string name_;  // "stdout" or "stderr"
  std::string rest_;
};

}  // namespace mlk::local
