#include "cli/run/log_reader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/kube/failure.h"
#include "cli/kube/list.h"
#include "cli/kube/logs.h"
#include "cli/kube/objects.h"
#include "cli/run/facts.h"
#include "cli/run/log_sources.h"
#include "cli/util/time.h"

namespace mlk {
namespace {

using json = nlohmann::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_held = 16u << 20, least_share = 32u << 10;  // bytes
constexpr std::size_t bytes_beside_text = 64;
constexpr milliseconds patience{2'000}, first_retry{250}, longest_retry{2'000}, longest_retrying{10'000};

// One log. What the loop's thread writes is under the reader's mutex.
struct ReadLog {
  LogSource source;
  std::size_t index = 0;
  const json* pod = nullptr;
  kube::LogOptions options;
  // Of the reader's thread.
  std::deque<kube::LogLine> lines;  // to be given out
  Time newest{};
  bool is_over = false;
  bool late = false;  // the others do not wait for it
  milliseconds retry = first_retry;
  std::optional<Clock::time_point> failing_since, again;
  // Under the mutex.
  kube::LogPosition position;
  std::deque<kube::LogLine> inbox;
  std::size_t inbox_bytes = 0, lines_bytes = 0;
  bool behind = false;  // there was no room: the stream was let go
  std::optional<kube::StreamEnd> end;
  LogShape shape;
  std::optional<Time> first, last;
  std::set<std::string> said;
  std::unique_ptr<kube::Stream> stream;
};

class LogReader {
 public:
  LogReader(kube::Client& client, const std::string& name_space, const LogTaker& taker)
      : client_(client), name_space_(name_space), taker_(taker) {}

  ~LogReader() {
    std::vector<std::unique_ptr<kube::Stream>> ending;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      for (const auto& log : logs_) ending.push_back(std::move(log->stream));
    }
    news_.notify_all();
  }

  void add(const LogSource& source, const json& pod, const kube::LogOptions& options) {
    logs_.push_back(std::make_unique<ReadLog>());
    logs_.back()->source = source;
    logs_.back()->index = logs_.size();
    logs_.back()->pod = &pod;
    logs_.back()->options = options;
  }

  // Returns when all were read, or the taker has had enough. Call once.
  void read() {
    share_ = std::max(least_share, most_held / 2 / std::max<std::size_t>(1, logs_.size()));
    for (const auto& log : logs_) {
      open(*log);
      without_line_.insert(log.get());
    }
    while (true) {
      const bool all_have_come = refill();
      if (heads_.empty() && without_line_.empty()) return;
      if (!all_have_come) {
        if (!wait()) return;
        continue;
      }
      if (!give_out()) return;
    }
  }

  const std::vector<std::unique_ptr<ReadLog>>& logs() const { return logs_; }

 private:
  void open(ReadLog& log) {
    kube::Request request = kube::log_request(name_space_, log.source.who.pod, log.options);
    {
      const std::lock_guard lock(mutex_);
      log.position.resume();
      if (const auto since = log.position.since()) {
        kube::LogOptions from_there = log.options;
        from_there.tail_lines.reset();
        from_there.since.reset();
        request = kube::log_request(name_space_, log.source.who.pod, from_there);
        request.query.emplace_back("sinceTime", format_time(*since));
      }
      log.behind = false;
      log.end.reset();
    }
    std::unique_ptr<kube::Stream> stream = client_.stream(
        request, [this, &log](std::string_view text) { take(log, text); },
        [this, &log](kube::StreamEnd end) {
          const std::lock_guard lock(mutex_);
          log.end = std::move(end);
          news_.notify_all();
        });
    const std::lock_guard lock(mutex_);
    if (!log.behind) log.stream = std::move(stream);
  }

  // On the client's loop thread. If lines come faster than they are given out, it waits, and with it the
  // server. If they are held up by another log, that must be read: this one goes on, and is let go if too
  // much is held.
  void take(ReadLog& log, std::string_view text) {
    std::optional<kube::LogLine> line = kube::parse_log_line(text);
    std::unique_ptr<kube::Stream> ending;
    std::unique_lock lock(mutex_);
    if (stopping_ || log.behind) return;
    if (!line) {
      if (!text.empty()) log.said.insert(kube::kubelet_said(text));
      return;
    }
    news_.wait(lock, [&] { return stopping_ || log.inbox_bytes < share_ || is_waiting_; });
    if (stopping_) return;
    if (log.inbox_bytes >= share_ && held_ >= most_held) {
      log.behind = true;
      ending = std::move(log.stream);
      news_.notify_all();
      return;
    }
    if (!log.position.take(*line)) return;
    if (!log.first) log.first = line->time;
    log.last = line->time;
    log.shape.bytes += text.size();
    log.inbox_bytes += text.size() + bytes_beside_text;
    held_ += text.size() + bytes_beside_text;
    log.inbox.push_back(std::move(*line));
    if (log.inbox.size() == 1) news_.notify_all();
  }

  // False while an earlier line may still come.
  bool refill() {
    bool all_have_come = true;
    for (auto at = without_line_.begin(); at != without_line_.end();) {
      ReadLog& log = **at;
      if (fetch(log)) {
        log.late = false;
        add_head(log);
      } else if (!log.is_over) {
        all_have_come = all_have_come && log.late;
        ++at;
        continue;
      }
      at = without_line_.erase(at);
    }
    if (heads_.empty() && !without_line_.empty()) all_have_come = false;
    return all_have_come;
  }

  // True: it has lines. Opens it again where that is due.
  bool fetch(ReadLog& log) {
    bool reopen = false;
    {
      const std::lock_guard lock(mutex_);
      log.lines.swap(log.inbox);
      held_ -= std::exchange(log.lines_bytes, std::exchange(log.inbox_bytes, 0));
      if (!log.lines.empty()) log.failing_since.reset();
      reopen = log.behind && log.lines.empty();
      if (log.lines.empty() && log.end && !log.again) reopen = settle(log);
    }
    if (!log.lines.empty()) {
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
  bool settle(ReadLog& log) {
    const Clock::time_point now = Clock::now();
    if (log.end->status == 0 && log.end->silent) return true;
    if (!log.failing_since) {
      log.failing_since = now;
      log.retry = first_retry;
    }
    const bool broken = log.end->status == 0 && !log.end->error.empty();
    const milliseconds longest = std::min(longest_retrying, client_.config().longest_trying);
    if (!broken || now - *log.failing_since + log.retry > longest) {
      log.is_over = true;
      return false;
    }
    log.again = now + log.retry;
    log.retry = std::min(log.retry * 2, longest_retry);
    return false;
  }

  void add_head(ReadLog& log) {
    log.newest = std::max(log.newest, log.lines.front().time);
    heads_.insert({log.newest, &log});
  }

  // The lines up to where a log has to be refilled. False: the taker has had enough.
  bool give_out() {
    constexpr int look_for_late_lines = 1000;
    for (int given = 0; !heads_.empty() && given < look_for_late_lines; ++given) {
      ReadLog& log = *heads_.begin()->log;
      heads_.erase(heads_.begin());
      kube::LogLine line = std::move(log.lines.front());
      log.lines.pop_front();
      if (!taker_.line(line_of(log.source, line.time, std::move(line.text)))) return false;
      if (log.lines.empty() && !fetch(log)) {
        if (!log.is_over) without_line_.insert(&log);
        if (!log.is_over) return true;
        continue;
      }
      add_head(log);
    }
    return true;
  }

  // For news. False: the taker has had enough.
  bool wait() {
    if (taker_.pause && !taker_.pause()) return false;
    if (!waits_since_) waits_since_ = Clock::now();
    std::unique_lock lock(mutex_);
    is_waiting_ = true;
    news_.notify_all();
    const auto has_news = [&] {
      return std::any_of(without_line_.begin(), without_line_.end(), [](const ReadLog* log) {
        return !log->inbox.empty() || log->behind || (log->end && !log->again);
      });
    };
    constexpr milliseconds look_again{100};
    if (news_.wait_for(lock, look_again, has_news)) waits_since_.reset();
    is_waiting_ = false;
    if (waits_since_ && Clock::now() - *waits_since_ > patience) {
      for (ReadLog* log : without_line_) log->late = true;
      waits_since_.reset();
    }
    return true;
  }

  struct Head {
    Time time;
    ReadLog* log;
    bool operator<(const Head& other) const {
      return time != other.time ? time < other.time : log->index < other.log->index;
    }
  };

  kube::Client& client_;
  const std::string& name_space_;
  const LogTaker& taker_;
  std::size_t share_ = 0;
  std::set<Head> heads_;
  std::set<ReadLog*> without_line_;
  std::optional<Clock::time_point> waits_since_;
  std::mutex mutex_;
  std::condition_variable news_;
  bool stopping_ = false, is_waiting_ = false;   // under it, as the next one
  std::size_t held_ = 0;                         // bytes of all logs
  std::vector<std::unique_ptr<ReadLog>> logs_;  // last: its streams use the rest
};

bool has_not_started(const json& pod) { return text_of(pod, {"status", "phase"}) == "Pending"; }

std::string rank_name(const LogSource& source) {
  return source.who.role + "/" + std::to_string(source.who.rank);
}

// Of the main container of a pod, as far as it is known.
std::optional<Time> start_of(const LogSource& source, const json& pod) {
  const json& statuses = at_path(pod, {"status", "containerStatuses"});
  if (!statuses.is_array()) return std::nullopt;
  for (const json& status : statuses) {
    if (text_of(status, {"name"}) != source.container) continue;
    for (const char* state : {"running", "terminated"}) {
      if (const auto time = parse_time(text_of(status, {"state", state, "startedAt"}))) return time;
    }
  }
  return std::nullopt;
}

// What is to be said of the logs after they were read. Throws for a refusal, and when nobody has answered.
void say_problems(const LogReader& reader, const LogFilter& filter, const kube::Config& config,
                  std::vector<std::string>& problems) {
  std::vector<std::string> waiting;  // the ranks without a log
  std::set<std::string> said;
  bool answered = reader.logs().empty();
  std::optional<kube::ApiError> unanswered;
  for (const auto& log : reader.logs()) {
    const LogSource& source = log->source;
    const kube::StreamEnd end = log->end.value_or(kube::StreamEnd{200, "", ""});
    for (const std::string& text : log->said) {
      if (said.insert(source.node + text).second)
        problems.push_back((source.node.empty() ? source.who.pod : "node " + source.node) + ": " + text);
    }
    if (end.status == 200) {
      answered = true;
      const auto started = start_of(source, *log->pod);
      if (!filter.tail && !filter.since && started && log->first && log->last) {
        LogShape shape = log->shape;
        shape.before = std::chrono::duration_cast<milliseconds>(*log->first - *started);
        shape.span = std::chrono::duration_cast<milliseconds>(*log->last - *log->first);
        if (seems_cut(shape))
          problems.push_back(fmt::format(
              "older lines of {} seem to be gone: its log begins {} after its start, since a node keeps the "
              "newest 10 MiB or so",
              rank_name(source), format_duration(std::chrono::duration_cast<std::chrono::seconds>(shape.before))));
      }
      continue;
    }
    // 500, or no answer at all: the API server does not reach the node of this pod; the others are not silent
    // for that.
    const kube::ApiError error =
        !end.error.empty() ? kube::ApiError(end.status, "Unreachable", end.error)
                           : kube::status_error(end.status, end.body,
                                                "log of " + kube::describe(kube::resources::pods,
                                                                           config.name_space, source.who.pod),
                                                &config);
    const bool silent = error.status() == 0;
    if (!silent && error.status() != 400 && error.status() != 404 && error.status() < 500) throw error;
    if (silent && !unanswered) unanswered = error;
    answered = answered || !silent;
    if (error.status() == 400 && has_not_started(*log->pod)) {
      waiting.push_back(rank_name(source));
    } else {
      problems.push_back(source.who.pod + ": " + error.what());
    }
  }
  if (waiting.size() == 1)
    problems.push_back(waiting.front() + " has no log yet: its container has not started");
  if (waiting.size() > 1)
    problems.push_back(std::to_string(waiting.size()) + " ranks have no log yet, such as " + waiting.front() +
                       ": their containers have not started");
  if (!answered) throw *unanswered;  // it is the API server that does not answer
}

kube::LogOptions options_of(const LogSource& source, const LogFilter& filter, std::optional<long> tail) {
  kube::LogOptions options;
  options.container = source.container;
  if (tail) options.tail_lines = static_cast<int>(std::min(*tail, 1'000'000'000L));
  options.since = filter.since;
  return options;
}

}  // namespace

std::vector<long> count_tails(kube::Client& client, const std::string& name_space,
                              const std::vector<std::pair<LogSource, const json*>>& sources,
                              const LogFilter& filter) {
  std::vector<LogSource> who;
  for (const auto& [source, pod] : sources) who.push_back(source);
  std::vector<long> counts(who.size(), 0);
  const std::vector<bool> shares = shares_rank(who);
  std::map<std::string, long> lines;  // by the pod's uid
  const LogTaker taker{.line = [&](const RunLogLine& line) { return ++lines[line.uid], true; }};
  LogReader reader(client, name_space, taker);
  for (std::size_t i = 0; i < who.size(); ++i) {
    if (shares[i]) reader.add(who[i], *sources[i].second, options_of(who[i], filter, filter.tail));
  }
  reader.read();
  for (std::size_t i = 0; i < who.size(); ++i) counts[i] = lines[who[i].uid];
  return tails_of(who, counts, *filter.tail);
}

void read_run_logs(kube::Client& client, const std::string& name_space, const std::vector<json>& pods,
                   const LogFilter& filter, const LogTaker& taker, std::vector<std::string>* problems) {
  const auto sources = choose_sources(pods, filter);
  std::vector<long> tails;
  if (filter.tail) tails = count_tails(client, name_space, sources, filter);
  LogReader reader(client, name_space, taker);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto& [source, pod] = sources[i];
    const std::optional<long> tail = filter.tail ? std::optional(tails[i]) : std::nullopt;
    reader.add(source, *pod, options_of(source, filter, tail));
  }
  reader.read();
  std::vector<std::string> unheard;
  say_problems(reader, filter, client.config(), problems ? *problems : unheard);
}

std::vector<RunLogLine> read_run_logs(kube::Client& client, const std::string& name_space,
                                      const std::vector<json>& pods, const LogFilter& filter,
                                      std::vector<std::string>* problems) {
  std::vector<RunLogLine> lines;
  const LogTaker taker{.line = [&](RunLogLine line) {
    lines.push_back(std::move(line));
    return true;
  }};
  read_run_logs(client, name_space, pods, filter, taker, problems);
  return lines;
}

bool seems_cut(const LogShape& shape) {
  constexpr double kept = 8u << 20;
  constexpr milliseconds least{1'000};
  const double milliseconds_said = static_cast<double>(std::max(shape.span, least).count());
  const double rate = static_cast<double>(shape.bytes) / milliseconds_said;
  return rate * static_cast<double>(shape.before.count()) >= kept;
}

}  // namespace mlk
