#include "cli/kube/logs.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "cli/kube/failure.h"
#include "cli/kube/list.h"
#include "cli/util/text.h"

namespace mlk::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// As far as a node's clock may be set back without a line coming twice.
constexpr std::size_t most_seconds = 600;

// What the pod's status says of the container.
struct ContainerState {
  enum class Phase { waiting, running, terminated };
  Phase phase = Phase::waiting;
  int restarts = 0;
  bool ran_before = false;  // there is a previous incarnation to read
};

ContainerState container_state(const json& pod, const std::string& container) {
  ContainerState state;
  for (const char* list : {"/status/containerStatuses", "/status/initContainerStatuses"}) {
    const json::json_pointer pointer(list);
    if (!pod.contains(pointer) || !pod.at(pointer).is_array()) continue;
    for (const json& status : pod.at(pointer)) {
      if (!status.is_object() || text_at(status, json::json_pointer("/name")) != container) continue;
      state.restarts = number_at(status, json::json_pointer("/restartCount"), 0);
      state.ran_before = status.contains(json::json_pointer("/lastState/terminated"));
      if (status.contains(json::json_pointer("/state/running"))) state.phase = ContainerState::Phase::running;
      if (status.contains(json::json_pointer("/state/terminated")))
        state.phase = ContainerState::Phase::terminated;
      return state;
    }
  }
  return state;
}

// Without what differs between the pods of a node: the API server quotes the address that it has asked.
std::string cause_of(const std::string& text) {
  const std::size_t begin = text.find("Get \"http");
  const std::size_t end = begin == std::string::npos ? begin : text.find("\": ", begin);
  return end == std::string::npos ? text : text.substr(0, begin) + text.substr(end + 3);
}

Request log_head(const std::string& name_space, const std::string& pod, const std::string& container) {
  Request request;
  request.path = path_of(resources::pods, name_space, pod) + "/log";
  request.accept = "*/*";
  request.query.emplace_back("timestamps", "true");
  if (!container.empty()) request.query.emplace_back("container", container);
  return request;
}

}  // namespace

std::optional<LogLine> parse_log_line(std::string_view line) {
  const std::size_t blank = line.find(' ');
  const auto time = parse_time(line.substr(0, blank));
  if (!time) return std::nullopt;
  return LogLine{*time,
                 blank == std::string_view::npos ? "" : std::string(last_rewrite(line.substr(blank + 1)))};
}

std::string_view last_rewrite(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t rewritten = line.rfind('\r');
  return rewritten == std::string_view::npos ? line : line.substr(rewritten + 1);
}

std::string kubelet_said(std::string_view line) {
  constexpr std::size_t longest = 300;
  if (lacks_inotify(line)) return "it is out of inotify instances, so its logs are asked for again and again";
  return "it says of the log: " + printable(cut(line, longest));
}

bool lacks_inotify(std::string_view line) {
  return line.find("fsnotify watcher") != std::string_view::npos ||
         (line.find("inotify") != std::string_view::npos && line.find("too many") != std::string_view::npos);
}

bool LogPosition::take(const LogLine& line) {
  const Time second = std::chrono::floor<seconds>(line.time);
  if (to_skip_ > 0) {
    if (!seen_.empty() && second <= seen_.rbegin()->first) {
      --to_skip_;
      return false;
    }
    to_skip_ = 0;
    was_cut_ = true;
  }
  second_ = second;
  ++seen_[second];
  if (seen_.size() > most_seconds) seen_.erase(seen_.begin());
  return true;
}

void LogPosition::resume() {
  to_skip_ = 0;
  if (!second_) return;
  for (auto at = seen_.lower_bound(*second_); at != seen_.end(); ++at) to_skip_ += at->second;
}

std::optional<Time> LogPosition::since() const { return second_; }

Request log_request(const std::string& name_space, const std::string& pod, const LogOptions& options) {
  Request request = log_head(name_space, pod, options.container);
  if (options.tail_lines) request.query.emplace_back("tailLines", std::to_string(*options.tail_lines));
  if (options.since)
    request.query.emplace_back("sinceSeconds", std::to_string(std::max<long>(1, options.since->count())));
  if (options.previous) request.query.emplace_back("previous", "true");
  if (options.limit_bytes) request.query.emplace_back("limitBytes", std::to_string(*options.limit_bytes));
  return request;
}

std::vector<LogLine> parse_log(std::string_view rest) {
  std::vector<LogLine> lines;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string_view text = rest.substr(0, end);
    if (auto line = parse_log_line(text)) {
      lines.push_back(std::move(*line));
    }
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return lines;
}

std::vector<LogLine> read_log(Client& client, const std::string& name_space, const std::string& pod,
                              const LogOptions& options) {
  Request request = log_request(name_space, pod, options);
  request.patient = true;  // a log may be as long as the way to it is slow
  const Response response = client.send(request);
  if (response.status != 200) {
    throw status_error(response.status, response.body, "log of " + describe(resources::pods, name_space, pod),
                       &client.config());
  }
  return parse_log(response.body);
}

struct LogFollower::State {
  enum class Mode { follow, poll, previous, final };

  Client& client;
  const std::string name_space, pod, container;
  const Reader reader;
  const LogTimes times;

  // Of the thread that calls update().
  ContainerState now;
  Start start;
  int instance = -1;         // the restart count of the incarnation that we read
  Mode mode = Mode::follow;  // of the stream that is open or was last
  milliseconds wait;         // before the next attempt
  Clock::time_point due{};   // the next attempt
  bool drained = false;      // the end of the incarnation before was read, or cannot be
  Clock::time_point follow_at{};  // before it the node is polled

  mutable std::mutex mutex;
  // Under it: the loop's thread writes.
  LogPosition position;
  std::optional<StreamEnd> end;
  Clock::time_point last_line{};
  bool progress = false;  // a line came since the stream was opened
  bool is_finished = false;
  bool behind = false;  // the reader had no room: the stream was let go
  std::string trouble;
  bool lacks_followers = false;  // of the node, by the open stream
  std::vector<std::string> said;

  std::unique_ptr<Stream> stream;  // set and taken under the mutex; last: its callbacks use all of the above

  State(Client& used, std::string where, std::string which, std::string part, Start from, Reader who,
        LogTimes patience)
      : client(used),
        name_space(std::move(where)),
        pod(std::move(which)),
        container(std::move(part)),
        reader(std::move(who)),
        times(patience),
        start(from),
        wait(patience.first_wait) {}

  void look();
  bool has_room() const { return !reader.room || reader.room(); }
  void open(Mode how);
  void let_go();
  void take(std::string_view text);
  void settle(const StreamEnd& end);
  void postpone();
  void note(std::string text);
};

LogFollower::LogFollower(Client& client, std::string name_space, std::string pod, std::string container,
                         Start start, Reader reader, LogTimes times)
    : state_(std::make_unique<State>(client, std::move(name_space), std::move(pod), std::move(container),
                                     start, std::move(reader), times)) {}

LogFollower::~LogFollower() { state_->let_go(); }

void LogFollower::update(const json& pod) {
  state_->now = container_state(pod, state_->container);
  state_->look();
}

void LogFollower::resume() {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->behind) return;
  }
  state_->look();
}

bool LogFollower::finished() const {
  const std::lock_guard lock(state_->mutex);
  return state_->is_finished;
}

std::vector<std::string> LogFollower::notes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->said;
}

std::string LogFollower::problem() const {
  const std::lock_guard lock(state_->mutex);
  return state_->trouble;
}

void LogFollower::State::look() {
  std::optional<StreamEnd> ended;
  bool silent = false;
  {
    const std::lock_guard lock(mutex);
    if (is_finished && now.restarts <= instance) return;
    if (behind && !has_room()) return;
    if (behind && mode == Mode::previous) drained = false;  // it is not read to its end
    behind = false;
    is_finished = false;
    ended.swap(end);
    const bool over = now.phase == ContainerState::Phase::terminated && mode == Mode::follow;
    silent = !ended && Clock::now() - last_line > (over ? times.linger : times.silence);
  }
  if (ended || silent) let_go();
  if (ended) settle(*ended);
  {
    const std::lock_guard lock(mutex);
    if (is_finished || stream != nullptr) return;
  }
  if (now.phase == ContainerState::Phase::waiting || Clock::now() < due) return;
  if (now.restarts > instance && instance >= 0) {
    // Only the last incarnation can still be read; of those between, nothing is left.
    if (now.ran_before && now.restarts == instance + 1 && !drained) {
      drained = true;
      open(Mode::previous);
      return;
    }
    const std::lock_guard lock(mutex);
    position = LogPosition();  // another log, from its start
    start = Start();
  }
  instance = now.restarts;
  drained = false;
  open(now.phase != ContainerState::Phase::running ? Mode::final
       : Clock::now() < follow_at                    ? Mode::poll
                                                     : Mode::follow);
}

void LogFollower::State::open(Mode how) {
  mode = how;
  Request request = log_head(name_space, pod, container);
  if (how == Mode::follow) request.query.emplace_back("follow", "true");
  if (how == Mode::previous) request.query.emplace_back("previous", "true");
  // A node answers a follower only when there is a first line: no bound but the rule of silence.
  request.timeout = how == Mode::follow ? milliseconds(0) : times.answer;
  {
    const std::lock_guard lock(mutex);
    position.resume();
    if (const auto since = position.since()) {
      request.query.emplace_back("sinceTime", format_time(*since));
    } else {
      if (start.tail_lines) request.query.emplace_back("tailLines", std::to_string(*start.tail_lines));
      if (start.since)
        request.query.emplace_back("sinceSeconds", std::to_string(std::max<long>(1, start.since->count())));
    }
    last_line = Clock::now();
    progress = false;
    lacks_followers = false;
    end.reset();
  }
  std::unique_ptr<Stream> opened = client.stream(
      request, [this](std::string_view text) { take(text); },
      [this](StreamEnd how_it_ended) {
        const std::lock_guard lock(mutex);
        end = std::move(how_it_ended);
      });
  const std::lock_guard lock(mutex);
  if (!behind) stream = std::move(opened);
}

// Without the mutex while the stream ends: that waits for its callbacks, which take it.
void LogFollower::State::let_go() {
  std::unique_ptr<Stream> ending;
  const std::lock_guard lock(mutex);
  ending = std::move(stream);
}

// A line for which there is no room ends the stream. To pause it would not do: over HTTP/2 libcurl goes on
// reading, and fails the transfer at 64 MiB.
void LogFollower::State::take(std::string_view text) {
  const std::optional<LogLine> next = parse_log_line(text);
  {
    std::unique_ptr<Stream> ending;
    const std::lock_guard lock(mutex);
    if (behind) return;
    last_line = Clock::now();
    if (!next) {
      lacks_followers = lacks_followers || lacks_inotify(text);
      if (!text.empty()) note(kubelet_said(text));
      return;
    }
    progress = true;
    trouble.clear();
    if (!has_room()) {
      behind = true;
      ending = std::move(stream);
      return;
    }
    if (!position.take(*next)) return;
    if (position.was_cut()) note("it has rotated the log of " + pod + ": lines may be missing");
  }
  reader.line(*next);
}

// What the end of a stream means for the next one.
void LogFollower::State::settle(const StreamEnd& ended) {
  const std::lock_guard lock(mutex);
  if (mode == Mode::follow && progress) wait = times.first_wait;
  if (lacks_followers) follow_at = Clock::now() + times.follow_again;
  if (ended.status == 200) {
    trouble.clear();
    if (mode == Mode::final) is_finished = true;
    // Otherwise the status decides: it may know of the end a moment later than the log does.
    if (mode == Mode::follow && !lacks_followers) postpone();
    if (mode == Mode::poll || lacks_followers) due = Clock::now() + times.poll;
    return;
  }
  if (ended.status == 0 && mode == Mode::previous) drained = false;  // it is not read to its end
  if (ended.silent) {  // the next connection is a good one
    due = Clock::now();
    return;
  }
  const ApiError error =
      !ended.error.empty()
          ? ApiError(ended.status, "Unreachable", ended.error)
          : status_error(ended.status, ended.body, "", &client.config());
  trouble = cause_of(error.what());
  const bool gone = ended.status == 404 || ended.status == 401 || ended.status == 403;
  // A node that has cleaned up answers 400 or 500 for what it no longer has.
  const bool lost = mode != Mode::follow && ended.status >= 400 && ended.status < 500 && ended.status != 429;
  if (gone || (lost && mode == Mode::final)) is_finished = true;
  postpone();
}

// Under the mutex.
void LogFollower::State::note(std::string text) {
  constexpr std::size_t most = 20;
  if (said.size() < most && std::find(said.begin(), said.end(), text) == said.end())
    said.push_back(std::move(text));
}

void LogFollower::State::postpone() {
  due = Clock::now() + wait;
  wait = std::min(wait * 2, times.longest_wait);
}

}  // namespace mlk::kube
