// Writes the output of a program in containerd's format: one stamp per line, in two files of bounded size.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace mlk::local {

class LogFile {
 public:
  // When the file `path` reaches half of `limit` bytes, it is renamed to `path`.1. An older file of this name
  // is replaced.
  LogFile(std::filesystem::path path, std::uint64_t limit);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Appends whole lines. On a full disk, whole lines are lost. When the disk has room again, a line of the
  // log reports the number of lost lines.
  void append(std::string_view lines);

 private:
  void open();
  bool write(std::string_view lines);
  const std::filesystem::path path_;
  const std::uint64_t limit_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t lost_ = 0;  // lines that were lost since the last written line
};

// One of the two outputs of a program.
class LogStream {
 public:
  LogStream(LogFile& file, std::string name) : file_(file), name_(std::move(name)) {}
  using Clock = std::chrono::steady_clock;
  void feed(std::string_view bytes,
            Clock::time_point now = Clock::now());  // writes complete lines, and long lines in parts
  void finish();                                    // writes the rest that has no newline

  // A progress bar rewrites its line with \r. Its current text becomes a line of the log every 2 s, so that a
  // reader sees the progress before the end. due(): the time at which pass_on() has such a line to write.
  // pass_on() returns true if it has written a line.
  std::optional<Clock::time_point> due() const { return due_; }
  bool pass_on(Clock::time_point now);

 private:
  void put(std::string& out, std::string_view text, bool full) const;
  LogFile& file_;
  const std::string name_;  // "stdout" or "stderr"
  std::string rest_;
  std::optional<Clock::time_point> due_;
};

}  // namespace mlk::local
