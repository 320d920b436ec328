#include "cli/local/node/log_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mlk::local {
namespace {

constexpr std::size_t part_size = 16 * 1024;  // as containerd cuts long lines
constexpr std::chrono::seconds time_of_bar{2};

// Always nine digits, so that stamps can be compared as text.
std::string stamp() {
  struct timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  struct tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  char text[64];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + length, sizeof text - length, ".%09ldZ", now.tv_nsec);
  return text;
}

}  // namespace

LogFile::LogFile(std::filesystem::path path, std::uint64_t limit) : path_(std::move(path)), limit_(limit) {
  open();
}

LogFile::~LogFile() {
  if (fd_ >= 0) ::close(fd_);
}

void LogFile::open() {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  struct stat info{};
  size_ = fd_ >= 0 && ::fstat(fd_, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

void LogFile::append(std::string_view lines) {
  if (size_ + lines.size() > limit_ / 2 && size_ > 0) {
    ::close(fd_);
    ::rename(path_.c_str(), (path_.string() + ".1").c_str());
    open();
  }
  if (fd_ < 0) open();
  const std::string note = lost_ == 0 ? ""
                                      : stamp() + " stderr F mlk: " + std::to_string(lost_) +
                                            " lines are missing here: they could not be written\n";
  if (write(note + std::string(lines))) {
    lost_ = 0;
  } else {
    lost_ += static_cast<std::uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
  }
}

// Writes all lines or no line, since a reader would join a part of a line with the next text.
bool LogFile::write(std::string_view lines) {
  std::uint64_t end = size_;
  while (!lines.empty() && fd_ >= 0) {
    const ssize_t count = ::write(fd_, lines.data(), lines.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    end += static_cast<std::uint64_t>(count);
    lines.remove_prefix(static_cast<std::size_t>(count));
  }
  if (!lines.empty() && fd_ >= 0 && ::ftruncate(fd_, static_cast<off_t>(size_)) != 0) {
    ::close(fd_);
    fd_ = -1;
  }
  if (lines.empty()) size_ = end;
  return lines.empty();
}

void LogStream::put(std::string& out, std::string_view text, bool full) const {
  out += stamp() + " " + name_ + (full ? " F " : " P ");
  out += text;
  out += '\n';
}

void LogStream::feed(std::string_view bytes, Clock::time_point now) {
  rest_ += bytes;
  std::string out;
  std::size_t begin = 0;
  for (std::size_t end; (end = rest_.find('\n', begin)) != rest_.npos; begin = end + 1) {
    for (; end - begin > part_size; begin += part_size)
      put(out, std::string_view(rest_).substr(begin, part_size), false);
    put(out, std::string_view(rest_).substr(begin, end - begin), true);
  }
  for (; rest_.size() - begin > part_size; begin += part_size)
    put(out, std::string_view(rest_).substr(begin, part_size), false);
  rest_.erase(0, begin);
  if (!out.empty()) file_.append(out);
  const bool is_bar = rest_.find('\r') != rest_.npos && rest_.find_first_not_of('\r') != rest_.npos;
  if (!is_bar) due_.reset();
  if (is_bar && !due_) due_ = now + time_of_bar;
}

bool LogStream::pass_on(Clock::time_point now) {
  if (!due_ || now < *due_) return false;
  rest_.resize(rest_.find_last_not_of('\r') + 1);  // a \r at the end begins the next text of this line
  finish();
  return true;
}

void LogStream::finish() {
  if (rest_.empty()) return;
  std::string out;
  put(out, rest_, true);
  rest_.clear();
  due_.reset();
  file_.append(out);
}

}  // namespace mlk::local
