// The log of a pod: lines in containerd's format, read with the options of `GET .../log`.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "cli/util/time.h"

namespace mlk::local {

struct LogOptions {
  bool follow = false;
  bool timestamps = false;
  std::optional<long long> tail_lines;
  std::optional<Time> since;
  std::optional<std::uint64_t> limit_bytes;
};

// One line of a log file, "2026-11-21T07:40:25.123456789Z stdout F text". `full`: the line ends here.
struct LogLine {
  Time time;
  std::string_view stamp;
  std::string_view text;
  bool full;
};
std::optional<LogLine> parse_log_line(std::string_view line);

// The logs of all pods. Thread-safe.
class PodLogs {
 public:
  explicit PodLogs(std::filesystem::path pods) : pods_(std::move(pods)) {}

  // Calls `write` with the lines up to the end of the log. With options.follow, waits for further lines until
  // `ended` returns true, which means that no more lines will come. Stops early if `write` or `alive` returns
  // false.
  void read(const std::string& uid, const LogOptions& options,
            const std::function<bool(std::string_view)>& write, const std::function<bool()>& alive,
            const std::function<bool()>& ended);

  void announce(const std::string& uid);  // this log has new lines
  void announce_all();

  // The end of the log: at most so many lines and bytes, without stamps.
  std::string tail(const std::string& uid, std::size_t lines, std::size_t bytes) const;

 private:
  struct News {
    std::uint64_t count = 0;
    int readers = 0;
  };
  const std::filesystem::path pods_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::map<std::string, News> followed_;
};

}  // namespace mlk::local
