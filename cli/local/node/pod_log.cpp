#include "cli/local/node/pod_log.h"

#include <deque>
#include <fstream>
#include <memory>
#include <sys/stat.h>

namespace mlk::local {
namespace {

constexpr std::size_t chunk_size = 64 * 1024;

// The complete lines of a log: of the older file that rotation left, then of the current one.
class LogFiles {
 public:
  explicit LogFiles(const std::filesystem::path& folder) : folder_(folder) { open(folder_ / "log.1"); }

  // Calls `line` for each complete line that exists now. False if `line` returned false.
  bool each_line(const std::function<bool(std::string_view)>& line) {
    while (true) {
      if (!read_file(line)) return false;
      // At a rotation, the supervisor renames the file that we have read, and begins a new one.
      struct stat current{};
      const bool there = ::stat((folder_ / "log").c_str(), &current) == 0;
      if (!there || (file_ && current.st_ino == inode_)) return true;
      if (file_ && !read_file(line)) return false;  // lines written between reading and checking
      open(folder_ / "log");
      if (!file_) return true;
    }
  }

 private:
  void open(const std::filesystem::path& path) {
    file_ = std::make_unique<std::ifstream>(path, std::ios::binary);
    struct stat info{};
    if (!*file_ || ::stat(path.c_str(), &info) != 0) {
      file_.reset();
      return;
    }
    inode_ = info.st_ino;
    rest_.clear();
  }

  bool read_file(const std::function<bool(std::string_view)>& line) {
    if (!file_) return true;
    char buffer[chunk_size];
    while (true) {
      file_->clear();
      file_->read(buffer, sizeof buffer);
      const auto count = static_cast<std::size_t>(file_->gcount());
      if (count == 0) return true;
      rest_.append(buffer, count);
      std::size_t begin = 0;
      for (std::size_t end; (end = rest_.find('\n', begin)) != rest_.npos; begin = end + 1) {
        if (!line(std::string_view(rest_).substr(begin, end - begin))) return false;
      }
      rest_.erase(0, begin);
    }
  }

  const std::filesystem::path folder_;
  std::unique_ptr<std::ifstream> file_;
  ino_t inode_ = 0;
  std::string rest_;
};

// Turns lines of the file into the lines for the client.
class LogWriter {
 public:
  LogWriter(const LogOptions& options, const std::function<bool(std::string_view)>& write)
      : options_(options), write_(write) {}

  bool put(std::string_view raw) {
    const auto line = parse_log_line(raw);
    if (!line) return true;
    if (options_.since && line->time < *options_.since) return true;
    if (options_.timestamps && at_start_) out_ += std::string(line->stamp) + " ";
    out_ += line->text;
    at_start_ = line->full;
    if (line->full) out_ += '\n';
    return out_.size() < chunk_size || flush();
  }

  bool flush() {
    if (options_.limit_bytes && written_ + out_.size() > *options_.limit_bytes) {
      out_.resize(*options_.limit_bytes - written_);
    }
    const bool good = out_.empty() || write_(out_);
    written_ += out_.size();
    out_.clear();
    return good && !(options_.limit_bytes && written_ >= *options_.limit_bytes);
  }

 private:
  const LogOptions& options_;
  const std::function<bool(std::string_view)>& write_;
  std::string out_;
  std::uint64_t written_ = 0;
  bool at_start_ = true;
};

}  // namespace

std::optional<LogLine> parse_log_line(std::string_view line) {
  const auto first = line.find(' ');
  if (first == line.npos) return std::nullopt;
  const auto second = line.find(' ', first + 1);
  if (second == line.npos || second + 2 > line.size()) return std::nullopt;
  const auto time = parse_time(line.substr(0, first));
  const std::string_view rest = line.substr(second + 1);
  if (!time || (rest[0] != 'F' && rest[0] != 'P') || (rest.size() > 1 && rest[1] != ' ')) return std::nullopt;
  return LogLine{*time, line.substr(0, first), rest.size() > 2 ? rest.substr(2) : std::string_view(),
                 rest[0] == 'F'};
}

void PodLogs::read(const std::string& uid, const LogOptions& options,
                   const std::function<bool(std::string_view)>& write, const std::function<bool()>& alive,
                   const std::function<bool()>& ended) {
  LogFiles files(pods_ / uid);
  LogWriter writer(options, write);
  std::uint64_t seen = 0;
  {
    const std::lock_guard lock(mutex_);
    ++followed_[uid].readers;
    seen = followed_[uid].count;
  }
  const auto leave = [&](void*) {
    const std::lock_guard lock(mutex_);
    if (--followed_[uid].readers == 0) followed_.erase(uid);
  };
  const std::unique_ptr<void, decltype(leave)> leaving(this, leave);

  bool more = true;
  if (options.tail_lines) {
    // To find the last entries, reads the whole log, but keeps only the wanted number of entries.
    std::deque<std::string> last;
    const auto wanted = static_cast<std::size_t>(std::max<long long>(0, *options.tail_lines));
    files.each_line([&](std::string_view line) {
      last.emplace_back(line);
      if (last.size() > wanted) last.pop_front();
      return true;
    });
    for (const std::string& line : last) more = more && writer.put(line);
  }
  while (more) {
    // First asks whether the log has ended, and then reads the files. So it also reads what was written just
    // before the end.
    const bool at_end = !options.follow || ended();
    more = files.each_line([&](std::string_view line) { return writer.put(line); }) && writer.flush();
    if (at_end || !more || !alive()) break;
    std::unique_lock lock(mutex_);
    news_.wait_for(lock, std::chrono::seconds(2), [&] { return followed_[uid].count != seen; });
    seen = followed_[uid].count;
  }
  if (more) writer.flush();
}

void PodLogs::announce(const std::string& uid) {
  const std::lock_guard lock(mutex_);
  const auto found = followed_.find(uid);
  if (found == followed_.end()) return;
  ++found->second.count;
  news_.notify_all();
}

void PodLogs::announce_all() {
  const std::lock_guard lock(mutex_);
  for (auto& [uid, news] : followed_) ++news.count;
  news_.notify_all();
}

std::string PodLogs::tail(const std::string& uid, std::size_t lines, std::size_t bytes) const {
  LogFiles files(pods_ / uid);
  std::deque<std::string> last;
  files.each_line([&](std::string_view raw) {
    const auto line = parse_log_line(raw);
    if (line) last.push_back(std::string(line->text) + (line->full ? "\n" : ""));
    if (last.size() > lines) last.pop_front();
    return true;
  });
  std::string text;
  for (const std::string& line : last) text += line;
  return text.size() > bytes ? text.substr(text.size() - bytes) : text;
}

}  // namespace mlk::local
