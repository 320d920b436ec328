#include "cli/run/read/log_reader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

namespace mlk {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_held = 16u << 20, least_share = 32u << 10;  // bytes
// What each log is asked for first. The lines of all are needed before the earliest is known, and the last
// log would come behind megabytes of the others.
constexpr std::size_t first_part = 32u << 10;
constexpr std::size_t most_sayings = 20;
constexpr milliseconds longest_holding_up{2'000}, look_again{100};
constexpr seconds longest_on_dead_connections{90};
constexpr milliseconds first_retry{250}, longest_retry{2'000}, longest_retrying{10'000};

struct OpenLog {
  LogRead& about;
  const std::size_t index;
  // Of the reader's thread.
  kube::LogPosition position{};
  std::string text{};    // lines to be given out, as they came
  std::size_t next = 0;  // where in it
  kube::LogLine line{};  // the one that is given out next
  Time newest{};
  bool is_over = false, was_asked = false;
  // The reader has waited for it: since something came of those that it waits for; since it was opened or had
  // its last line.
  milliseconds missed{0}, silent{0};
  milliseconds retry = first_retry;
  std::optional<Clock::time_point> trying_since{}, again{};
  // Under the reader's mutex: the loop's thread writes.
  std::string inbox{};
  std::size_t limit = 0;     // bytes that the stream was asked for; 0: all
  std::size_t came = 0;      // bytes of the stream so far
  bool was_limited = false;  // the stream has ended, or will, where it was asked to
  bool behind = false;       // there was no room: the stream was let go
  std::optional<kube::StreamEnd> end{};
  std::unique_ptr<kube::Stream> stream{};

  bool is_late() const { return missed > longest_holding_up; }  // the others do not wait for it
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

  // Returns when all were read, or the taker has had enough.
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
    {
      const std::lock_guard lock(mutex_);
      log.limit = options.limit_bytes.value_or(0);
      log.came = 0;
      log.was_limited = log.behind = false;
      log.end.reset();
    }
    std::unique_ptr<kube::Stream> stream = client_.stream(
        kube::log_request(name_space_, log.about.source.who.pod, options),
        [this, &log](std::string_view text) { take(log, text); },
        [this, &log](kube::StreamEnd end) {
          const std::lock_guard lock(mutex_);
          log.end = std::move(end);
          news_.notify_all();
        });
    const std::lock_guard lock(mutex_);
    if (!log.behind) log.stream.swap(stream);
  }

  // On the client's loop thread, which serves all logs: what costs time is left to the reader. If lines come
  // faster than they are given out, it waits, and with it the server. If they are held up by another log,
  // that must be read: this one goes on, and is let go if too much is held.
  void take(OpenLog& log, std::string_view line) {
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

  // True: it has a next line.
  static bool advance(OpenLog& log) {
    while (log.next < log.text.size()) {
      const std::size_t end = log.text.find('\n', log.next);
      const auto raw = std::string_view(log.text).substr(log.next, end - log.next);
      log.next = end + 1;
      std::optional<kube::LogLine> line = kube::parse_log_line(raw);
      if (!line) {
        note(log, raw.empty() ? "" : kube::kubelet_said(raw));
        continue;
      }
      if (!log.position.take(*line)) continue;
      if (log.position.was_cut()) note(log, kube::rotated(log.about.source.who.pod));
      if (!log.about.first) log.about.first = line->time;
      log.about.last = line->time;
      log.about.bytes += raw.size();
      log.line = std::move(*line);
      return true;
    }
    return false;
  }

  // False while an earlier line than those that are here may still come.
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

  // True: it has a next line. Opens it again where that is due.
  bool fetch(OpenLog& log) {
    while (!advance(log)) {
      if (!refill(log)) return false;
    }
    return true;
  }

  // True: it has more text.
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
        reopen = log.behind || (log.end && !log.again && settle(log));
      }
    }
    if (!log.text.empty()) {
      log.trying_since.reset();
      log.retry = first_retry;
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

  // Under the mutex. True: open it at once.
  bool settle(OpenLog& log) {
    if (log.was_limited && log.end->status == 200) return true;
    if (log.end->silent && log.missed < longest_on_dead_connections) return true;
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

  // The lines up to where a log has to be refilled. False: the taker has had enough.
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

  // For news. False: the taker has had enough.
  bool wait() {
    if (taker_.pause && !taker_.pause()) return false;
    const Clock::time_point begin = Clock::now();
    std::unique_lock lock(mutex_);
    is_waiting_ = true;
    news_.notify_all();
    const bool news = news_.wait_for(lock, look_again, [&] {
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
  const std::size_t share_;        // of what may be held, for each log
  std::vector<Head> heads_;        // a heap: the next line of each log that has one
  std::vector<OpenLog*> missing_;  // those that have none, and may have more
  std::mutex mutex_;
  std::condition_variable news_;
  bool stopping_ = false, is_waiting_ = false;  // under it, as the next one
  std::size_t held_ = 0;                        // bytes of all logs
  std::vector<std::unique_ptr<OpenLog>> logs_;  // last: its streams use the rest
};

}  // namespace

void read_logs(kube::Client& client, const std::string& name_space, std::vector<LogRead>& logs,
               const LogTaker& taker, milliseconds longest_silence) {
  LogReader(client, name_space, logs, taker, longest_silence).read();
}

}  // namespace mlk
