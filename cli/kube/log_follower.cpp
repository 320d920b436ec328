#include "cli/kube/log_follower.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "cli/kube/log_parser.h"
#include "cli/util/json_path.h"

namespace mlk::kube {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// The state of the container in the pod's status.
struct ContainerState {
  enum class Phase { waiting, running, terminated };
  Phase phase = Phase::waiting;
  int restarts = 0;
  bool ran_before = false;    // there is a previous incarnation to read
  bool never_starts = false;  // the pod ended before the container started
};

ContainerState container_state(const json& pod, const std::string& container) {
  ContainerState state;
  const std::string phase = text_of(pod, {"status", "phase"});
  state.never_starts = phase == "Failed" || phase == "Succeeded";
  for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
    const json& statuses = at_path(pod, {"status", list});
    if (!statuses.is_array()) continue;
    for (const json& status : statuses) {
      if (!status.is_object() || text_of(status, {"name"}) != container) continue;
      state.restarts = number_of(status, {"restartCount"}, 0);
      state.ran_before = status.contains(json::json_pointer("/lastState/terminated"));
      if (status.contains(json::json_pointer("/state/running"))) state.phase = ContainerState::Phase::running;
      if (status.contains(json::json_pointer("/state/terminated")))
        state.phase = ContainerState::Phase::terminated;
      state.never_starts =
          state.never_starts && state.phase == ContainerState::Phase::waiting && !state.ran_before;
      return state;
    }
  }
  return state;
}

}  // namespace

struct LogFollower::State {
  enum class Mode { follow, poll, previous, final };

  Client& client;
  const std::string name_space, pod, container;
  const Reader reader;
  const LogTimes times;

  // Used only by the thread that calls update() and resume().
  ContainerState now;
  Start start;
  int instance = -1;              // the restart count of the incarnation that we read
  Mode mode = Mode::follow;       // the mode of the open stream, or of the last one
  milliseconds wait;              // the wait before the next attempt
  Clock::time_point due{};        // the time of the next attempt
  bool drained = false;           // the previous incarnation is being read, was read, or cannot be read
  Clock::time_point follow_at{};  // until this time, mlk polls the node
  std::optional<Clock::time_point> refused_since;
  bool whole = false;  // the log has lines, and their stream ended in good order

  mutable std::mutex mutex;
  // Guarded by the mutex, because the loop's thread writes these, too.
  LogPosition position;
  LogParser parser;
  std::optional<StreamEnd> end;
  Clock::time_point last_line{};
  bool progress = false;  // a line came since the stream was opened
  bool is_finished = false;
  bool behind = false;  // the stream was closed because the reader had no room
  std::string trouble;
  bool lacks_followers = false;  // the open stream reported that the node can start no more followers
  std::vector<std::string> said;

  std::unique_ptr<Stream>
      stream;  // guarded by the mutex; declared last, because its callbacks use the other members

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

  void step();
  bool has_room() const { return !reader.room || reader.room(); }
  void open(Mode how);
  void let_go();
  void consume(std::string_view text);
  void on_end(const StreamEnd& end);
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
  state_->step();
}

void LogFollower::resume() {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->behind) return;
  }
  state_->step();
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

void LogFollower::State::step() {
  std::optional<StreamEnd> ended;
  bool silent = false;
  {
    const std::lock_guard lock(mutex);
    if (is_finished && now.restarts <= instance) return;
    if (now.never_starts && instance < 0) is_finished = true;  // the container has no log
    if (is_finished && now.never_starts) return;
    if (behind && !has_room()) return;
    if (behind && mode == Mode::previous) drained = false;  // the log was not read to its end
    behind = false;
    is_finished = false;
    ended.swap(end);
    const bool over = now.phase == ContainerState::Phase::terminated && mode == Mode::follow;
    silent = !ended && Clock::now() - last_line > (over ? times.linger : times.silence);
  }
  if (ended || silent) let_go();
  if (ended) on_end(*ended);
  {
    const std::lock_guard lock(mutex);
    if (is_finished || stream != nullptr) return;
  }
  if (now.phase == ContainerState::Phase::waiting || Clock::now() < due) return;
  if (now.restarts > instance && instance >= 0) {
    // A node keeps the log of the previous incarnation, but not the logs of earlier ones.
    if (now.ran_before && now.restarts == instance + 1 && !drained) {
      drained = true;
      open(Mode::previous);
      return;
    }
    const std::lock_guard lock(mutex);
    position = LogPosition();  // a new log, read from its start
    start = Start();
  }
  instance = now.restarts;
  drained = false;
  open(now.phase != ContainerState::Phase::running ? Mode::final
       : Clock::now() < follow_at                  ? Mode::poll
                                                   : Mode::follow);
}

void LogFollower::State::open(Mode how) {
  mode = how;
  LogOptions options{.container = container, .tail_lines = start.tail_lines, .since = start.since};
  options.follow = how == Mode::follow;
  options.previous = how == Mode::previous;
  {
    const std::lock_guard lock(mutex);
    position.resume();
    options.from = position.since();
    parser.open(options, std::chrono::system_clock::now());
    last_line = Clock::now();
    progress = false;
    lacks_followers = false;
    end.reset();
  }
  Request request = log_request(name_space, pod, options);
  // A node does not answer a request that follows a log until the log has its first line. So such a request
  // has no time-out, and step() ends a stream that is silent for too long.
  request.timeout = how == Mode::follow ? milliseconds(0) : times.answer;
  std::unique_ptr<Stream> opened = client.stream(
      request, [this](std::string_view text) { consume(text); },
      [this](StreamEnd how_it_ended) {
        const std::lock_guard lock(mutex);
        end = std::move(how_it_ended);
      });
  const std::lock_guard lock(mutex);
  if (!behind) stream = std::move(opened);
}

// Destroys the stream after the lock is released, because the destructor of a stream waits for callbacks,
// which lock the mutex.
void LogFollower::State::let_go() {
  std::unique_ptr<Stream> ending;
  const std::lock_guard lock(mutex);
  ending = std::move(stream);
}

// If the reader has no room for a line, the stream ends. A pause would not work: over HTTP/2, libcurl
// continues to read, and the transfer fails at 64 MiB.
void LogFollower::State::consume(std::string_view text) {
  LogParser::Parsed next;
  {
    std::unique_ptr<Stream> ending;
    const std::lock_guard lock(mutex);
    if (behind) return;
    last_line = Clock::now();
    if (!has_room()) {
      behind = true;
      ending = std::move(stream);
      return;
    }
    next = parser.parse(text);
    if (next.kind == LogParser::Kind::nothing) return;
    if (next.kind == LogParser::Kind::sentence) {
      lacks_followers = lacks_followers || lacks_inotify(text);
      note(kubelet_said(text));
      return;
    }
    progress = true;
    trouble.clear();
    if (next.kind == LogParser::Kind::line && !position.admit(next.line)) return;
    if (position.was_cut()) note(rotated(pod));
  }
  reader.line(next.line);
}

// The way in which a stream ended decides whether and when the next stream starts.
void LogFollower::State::on_end(const StreamEnd& ended) {
  const std::lock_guard lock(mutex);
  const bool goes_on = mode == Mode::follow || mode == Mode::poll;
  if (goes_on && progress) wait = times.first_wait;
  const bool without_pod = pod_is_gone(ended);
  // The comment of LogTimes::refusal says why these refusals may be temporary.
  const bool doubtful = ended.status == 403 || (ended.status == 404 && !without_pod);
  if (!doubtful) refused_since.reset();
  if (lacks_followers) follow_at = Clock::now() + times.follow_again;
  if (ended.status == 200) {
    trouble.clear();
    whole = position.since().has_value();
    if (mode == Mode::final) is_finished = true;
    // In any other mode, the log may go on. Only the pod's status tells whether the container has ended, and
    // this status may change a moment after the log ends.
    if (mode == Mode::poll || lacks_followers) {
      due = Clock::now() + times.poll;
    } else if (mode == Mode::follow) {
      postpone();
    }
    return;
  }
  if (ended.status == 0) whole = false;
  if (ended.status == 0 && mode == Mode::previous) drained = false;  // the log was not read to its end
  if (ended.silent) {                                                // a new connection may work
    due = Clock::now();
    return;
  }
  trouble = without_pod && whole ? "" : log_error(ended, client.config()).what();
  if (doubtful && !refused_since) refused_since = Clock::now();
  const bool refused = refused_since && Clock::now() - *refused_since >= times.refusal;
  if (doubtful && !refused && mode == Mode::previous) drained = false;
  // While the container runs, the node will soon know the pod again. So a 404 of the node can be final only
  // after the container has ended.
  const bool gone =
      without_pod || ended.status == 401 || (refused && (ended.status == 403 || mode == Mode::final));
  // If a log was removed from its node, the node answers with a status 4xx. After 429 or 5xx, a retry may
  // succeed.
  const bool lost = !doubtful && ended.status >= 400 && ended.status < 500 && ended.status != 429;
  if (gone || (lost && mode == Mode::final)) is_finished = true;
  postpone();
}

// Call with the mutex locked.
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
