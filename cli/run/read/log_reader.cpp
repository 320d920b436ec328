#include "cli/run/read/log_reader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "cli/kube/log_parser.h"

namespace mlk {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_held = 16u << 20, least_share = 32u << 10;  // bytes
// The size of the first request for each log. The reader needs a line of each log before it knows the
// earliest line. Without this limit, the last log would arrive behind megabytes of the other logs.
constexpr std::size_t first_part = 32u << 10;
constexpr std::size_t most_sayings = 20;
constexpr milliseconds longest_holding_up{2'000}, poll_interval{100};
constexpr int most_dead_connections = 3;
constexpr milliseconds first_retry{250}, longest_retry{2'000}, longest_retrying{10'000};

struct OpenLog {
  LogRead& about;
  const std::size_t index;
  // The members below belong to the reader's thread.
  kube::LogPosition position{};
  kube::LogParser parser{};
  std::string text{};    // lines to be given out, in their order of arrival
  std::size_t next = 0;  // the position of the next line in `text`
  kube::LogLine line{};  // the line that is given out next
  Time newest{};
  bool is_over = false, was_asked = false;
  // How long wait() has waited. `missed`: since a log in missing_ last had news. `silent`: since this log
  // was opened or last brought text.
  milliseconds missed{0}, silent{0};
  milliseconds retry = first_retry;
  int dead_connections = 0;  // connections that fell silent after the last new line
  std::optional<Clock::time_point> trying_since{}, again{};
  // The members below are guarded by the reader's mutex, since the loop's thread writes them too.
  std::string inbox{};
  std::size_t limit = 0;     // bytes that the request of the stream asks for; 0: all
  std::size_t came = 0;      // bytes of the stream so far
  bool was_limited = false;  // the stream has ended, or will end, at `limit`
  bool behind = false;       // the stream was closed, because there was no room for its lines
  std::optional<kube::StreamEnd> end{};
  std::unique_ptr<kube::Stream> stream{};

  bool is_late() const { return missed > longest_holding_up; }  // the other logs do not wait for this log
};

class LogReader {
 public:
  LogReader(kube::Client& client, const std::string& name_space, std::vector<LogRead>& logs,
            const LogTaker& taker, milliseconds longest_silence)
      : client_(client),
        name_space_(name_space),
        taker_(taker),
        longest_silence_(longest_silence),
        share_(std::max(least_share, most_held / 2 / std::max<std::size_t>(1, logs.size()))) {
    for (LogRead& log : logs) logs_.push_back(std::make_unique<OpenLog>(OpenLog{log, logs_.size()}));
  }

  ~LogReader() {
    std::vector<std::unique_ptr<kube::Stream>> ending;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      for (const auto& log : logs_) ending.push_back(std::move(log->stream));
    }
    news_.notify_all();
  }

  // Reads all logs to their ends. Returns earlier if the taker asks to stop.
  void read() {
    for (const auto& log : logs_) {
      open(*log);
      missing_.push_back(log.get());
    }
    while (true) {
      const bool all_have_come = fetch_missing();
      if (heads_.empty() && missing_.empty()) return;
      if (!(all_have_come ? give_out() : wait())) return;
    }
  }

 private:
  void open(OpenLog& log) {
    if (!log.trying_since) log.trying_since = Clock::now();
    log.silent = milliseconds(0);
    kube::LogOptions options = log.about.options;
    log.position.resume();
    options.from = log.position.since();
    if (!log.was_asked && !options.tail_lines && !options.since) options.limit_bytes = first_part;
    log.was_asked = true;
    log.parser.open(options, std::chrono::system_clock::now());
    {
      const std::lock_guard lock(mutex_);
      log.limit = options.limit_bytes.value_or(0);
      log.came = 0;
      log.was_limited = log.behind = false;
      log.end.reset();
    }
    std::unique_ptr<kube::Stream> stream = client_.stream(
        kube::log_request(name_space_, log.about.source.who.pod, options),
        [this, &log](std::string_view text) { consume(log, text); },
        [this, &log](kube::StreamEnd end) {
          const std::lock_guard lock(mutex_);
          log.end = std::move(end);
          news_.notify_all();
        });
    const std::lock_guard lock(mutex_);
    if (!log.behind) log.stream.swap(stream);
  }

  // Runs on the client's loop thread, which serves all logs, so slow work is left to the reader. If lines
  // arrive faster than they are given out, this thread waits, and so the server waits too. While the reader
  // waits for another log, this thread must not wait, since it also reads the other log. It then stores
  // further lines, and closes the stream of this log if too many bytes are held.
  void consume(OpenLog& log, std::string_view line) {
    std::unique_ptr<kube::Stream> ending;
    std::unique_lock lock(mutex_);
    if (log.inbox.size() >= share_)
      news_.wait(lock, [&] { return stopping_ || log.inbox.size() < share_ || is_waiting_; });
    if (stopping_ || log.behind || log.was_limited) return;
    log.came += line.size() + 1;
    const kube::AtLimit at = kube::at_limit(log.limit, log.came);
    log.was_limited = at != kube::AtLimit::goes_on;
    if (at == kube::AtLimit::ends_within) return;
    if (log.inbox.size() >= share_ && held_ >= most_held) {
      log.behind = true;
      ending = std::move(log.stream);
      news_.notify_all();
      return;
    }
    const bool first = log.inbox.empty();
    log.inbox.append(line).push_back('\n');
    held_ += line.size() + 1;
    if (first) news_.notify_all();
  }

  static void note(OpenLog& log, std::string said) {
    if (!said.empty() && log.about.said.size() < most_sayings) log.about.said.insert(std::move(said));
  }

  // Moves to the next line of the text. Returns false if the text has no further line.
  static bool advance(OpenLog& log) {
    using Kind = kube::LogParser::Kind;
    while (log.next < log.text.size()) {
      const std::size_t end = log.text.find('\n', log.next);
      const auto raw = std::string_view(log.text).substr(log.next, end - log.next);
      log.next = end + 1;
      auto [kind, line] = log.parser.parse(raw);
      if (kind == Kind::sentence) note(log, kube::kubelet_said(raw));
      if (kind == Kind::sentence || kind == Kind::nothing) continue;
      if (kind == Kind::line && !log.position.admit(line)) continue;
      // Only a new line shows progress: if the log always breaks at the same place, known lines arrive after
      // each retry.
      log.trying_since.reset();
      log.retry = first_retry;
      log.dead_connections = 0;
      if (log.position.was_cut()) note(log, kube::rotated(log.about.source.who.pod));
      if (!log.about.first) log.about.first = line.time;
      log.about.last = line.time;
      log.about.bytes += raw.size();
      log.line = std::move(line);
      return true;
    }
    return false;
  }

  // Reads the logs in missing_. Returns false while these logs may still bring a line that is earlier than
  // all lines in heads_.
  bool fetch_missing() {
    bool all_have_come = true;
    std::erase_if(missing_, [&](OpenLog* log) {
      if (fetch(*log)) {
        add_head(*log);
        return true;
      }
      all_have_come = all_have_come && (log->is_over || log->is_late());
      return log->is_over;
    });
    return all_have_come && (!heads_.empty() || missing_.empty());
  }

  // Returns whether the log has a next line. Opens the log again if that is due.
  bool fetch(OpenLog& log) {
    while (!advance(log)) {
      if (!refill(log)) return false;
    }
    return true;
  }

  // Moves the text that has arrived into the log. Returns false if no text has arrived.
  bool refill(OpenLog& log) {
    bool reopen = false;
    std::unique_ptr<kube::Stream> ending;
    {
      const std::lock_guard lock(mutex_);
      held_ -= log.text.size();
      log.text.clear();
      log.next = 0;
      if (log.text.capacity() > 2 * share_) log.text.shrink_to_fit();
      log.text.swap(log.inbox);
      if (log.text.empty()) {
        if (log.silent > longest_silence_ && !log.end && !log.behind) {
          log.end = kube::StreamEnd{
              0, "nothing came for " + format_duration(std::chrono::floor<seconds>(longest_silence_)), ""};
          ending = std::move(log.stream);
        }
        reopen = log.behind || (log.end && !log.again && on_end(log));
      }
    }
    if (!log.text.empty()) {
      log.missed = log.silent = milliseconds(0);
      news_.notify_all();
      return true;
    }
    if (log.again && Clock::now() >= *log.again) {
      log.again.reset();
      reopen = true;
    }
    if (reopen) open(log);
    return false;
  }

  // Decides whether and when to open the log again after the end of a stream. Returns true if this is due at
  // once. Call it under the mutex.
  bool on_end(OpenLog& log) {
    if (log.was_limited && log.end->status == 200) return true;
    if (log.end->silent && ++log.dead_connections <= most_dead_connections) return true;
    const Clock::time_point now = Clock::now();
    if (!log.trying_since) log.trying_since = now;
    const milliseconds longest = std::min(longest_retrying, client_.config().longest_trying);
    if (log.end->status != 0 || now - *log.trying_since + log.retry > longest) {
      log.about.end = *log.end;
      log.is_over = true;
      return false;
    }
    log.again = now + log.retry;
    log.retry = std::min(log.retry * 2, longest_retry);
    return false;
  }

  void add_head(OpenLog& log) {
    log.newest = std::max(log.newest, log.line.time);
    heads_.push_back({log.newest, &log});
    std::push_heap(heads_.begin(), heads_.end(), is_later);
  }

  // Gives out lines until a log has to be refilled, but not more than look_for_late_lines. Returns false if
  // the taker has asked to stop.
  bool give_out() {
    constexpr int look_for_late_lines = 1000;
    for (int given = 0; !heads_.empty() && given < look_for_late_lines; ++given) {
      OpenLog& log = *heads_.front().log;
      std::pop_heap(heads_.begin(), heads_.end(), is_later);
      heads_.pop_back();
      if (!taker_.line(line_of(log.about.source, log.line.time, std::move(log.line.text)))) return false;
      if (fetch(log)) {
        add_head(log);
      } else if (!log.is_over) {
        missing_.push_back(&log);
        return true;
      }
    }
    return true;
  }

  // Waits for news. Returns false if the taker has asked to stop.
  bool wait() {
    if (taker_.pause && !taker_.pause()) return false;
    const Clock::time_point begin = Clock::now();
    std::unique_lock lock(mutex_);
    is_waiting_ = true;
    news_.notify_all();
    const bool news = news_.wait_for(lock, poll_interval, [&] {
      return std::any_of(missing_.begin(), missing_.end(), [](const OpenLog* log) {
        return !log->inbox.empty() || log->behind || (log->end && !log->again);
      });
    });
    is_waiting_ = false;
    const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
    for (OpenLog* log : missing_) {
      log->missed = news ? milliseconds(0) : log->missed + waited;
      log->silent += waited;
    }
    return true;
  }

  struct Head {
    Time time;
    OpenLog* log;
  };
  static bool is_later(const Head& a, const Head& b) {
    return a.time != b.time ? a.time > b.time : a.log->index > b.log->index;
  }

  kube::Client& client_;
  const std::string& name_space_;
  const LogTaker& taker_;
  const milliseconds longest_silence_;
  const std::size_t share_;        // the bytes that each log may hold
  std::vector<Head> heads_;        // a heap: the next line of each log that has one
  std::vector<OpenLog*> missing_;  // the logs that have no next line yet, but may get one
  std::mutex mutex_;
  std::condition_variable news_;
  bool stopping_ = false, is_waiting_ = false;  // guarded by mutex_, like held_
  std::size_t held_ = 0;                        // bytes of all logs
  std::vector<std::unique_ptr<OpenLog>> logs_;  // declared last: the streams use the members above
};

}  // namespace

void read_logs(kube::Client& client, const std::string& name_space, std::vector<LogRead>& logs,
               const LogTaker& taker, milliseconds longest_silence) {
  LogReader(client, name_space, logs, taker, longest_silence).read();
}

}  // namespace mlk
