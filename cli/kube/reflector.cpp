#include "cli/kube/reflector.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "cli/kube/failure.h"
#include "cli/kube/list.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"

namespace mlk::kube {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_waiting = 64u << 20;  // bytes of unread events

struct Stopped {};  // thrown on the reflector's thread to end it

// How a watch ended, and what the reflector does next.
enum class WatchEnd {
  in_order,  // continue from the last resource version
  broken,    // continue from the last resource version, after a wait
  expired,   // the resource version is too old: list again, after a wait
};

// Exponential backoff with jitter. After a time without failures, it starts again with the first wait.
class Backoff {
 public:
  explicit Backoff(const ReflectorTimes& times) : times_(times), next_(times.first_wait) {}

  milliseconds next(Clock::time_point now) {
    if (now - last_ > times_.calm) next_ = times_.first_wait;
    last_ = now;
    std::uniform_real_distribution<double> jitter(1.0, 2.0);
    const auto wait = std::chrono::duration_cast<milliseconds>(next_ * jitter(random_));
    next_ = std::min(next_ * 2, times_.longest_wait);
    return std::min(wait, times_.longest_wait);
  }

  // The duration is random, so that the watches of many clients do not all end at once.
  int watch_seconds() { return std::uniform_int_distribution<int>(300, 600)(random_); }

 private:
  ReflectorTimes times_;
  milliseconds next_;
  Clock::time_point last_{};
  std::mt19937 random_{std::random_device{}()};
};

std::string key_of(const json& object) {
  return text_of(object, {"metadata", "namespace"}) + "/" + name_of(object);
}

std::string version_of(const json& object) { return text_of(object, {"metadata", "resourceVersion"}); }

bool is_final(const ApiError& error) {
  return error.status() == 401 || error.status() == 403 || error.status() == 404;
}

// The lines of the watch's stream. The loop's thread writes them, the reflector's thread reads them.
struct Inbox {
  std::deque<std::string> lines;
  std::size_t bytes = 0;  // of the lines
  std::optional<StreamEnd> end;
  bool opened = false;

  // If events arrive faster than the reflector reads them, put() ends the watch. The next watch continues
  // after the last event that was read.
  void put(std::string_view line) {
    if (end) return;
    bytes += line.size();
    lines.emplace_back(line);
    if (bytes > most_waiting) end = StreamEnd{0, "events come faster than they can be read", ""};
  }
};

}  // namespace

struct Reflector::State {
  State(Client& used, Resource what, std::string where, ListOptions which, std::function<void()> callback,
        ReflectorTimes patience, std::function<void(const json&)> of_removed)
      : client(used),
        resource(std::move(what)),
        name_space(std::move(where)),
        options(std::move(which)),
        changed(std::move(callback)),
        removed(std::move(of_removed)),
        times(patience),
        backoff(patience) {}

  Client& client;
  const Resource resource;
  const std::string name_space;
  const ListOptions options;
  const std::function<void()> changed;
  const std::function<void(const json&)> removed;
  const ReflectorTimes times;

  // Used only by the reflector's thread.
  Backoff backoff;
  std::string version;
  bool has_watched = false;
  std::optional<Clock::time_point> refused_since;

  mutable std::mutex mutex;
  std::condition_variable wake;
  // Guarded by the mutex.
  bool stopping = false;
  bool is_synced = false;
  std::map<std::string, json> store;
  std::exception_ptr error;
  Clock::time_point failing_since;
  Inbox inbox;

  std::thread thread;  // declared last: it uses all of the above

  void run();
  void list();
  WatchEnd watch();
  WatchEnd read_watch(Clock::time_point opened_at);
  WatchEnd ended(const StreamEnd& end, bool had_events, bool opened, Clock::time_point opened_at);
  std::optional<WatchEnd> apply(const std::string& line);
  Response send(const Request& request);
  void put(json object);
  void pause();
  void check_stopping() const;
  void well();
  void failed(const ApiError& why);
  bool may_pass(const ApiError& problem);
};

Reflector::Reflector(Client& client, Resource resource, std::string name_space, ListOptions options,
                     std::function<void()> changed, ReflectorTimes times,
                     std::function<void(const json&)> removed)
    : state_(std::make_unique<State>(client, std::move(resource), std::move(name_space), std::move(options),
                                     std::move(changed), times, std::move(removed))) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

Reflector::~Reflector() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
}

bool Reflector::synced() const {
  const std::lock_guard lock(state_->mutex);
  return state_->is_synced;
}

std::vector<json> Reflector::objects() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<json> all;
  all.reserve(state_->store.size());
  for (const auto& [key, object] : state_->store) all.push_back(object);
  return all;
}

std::exception_ptr Reflector::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->error;
}

milliseconds Reflector::failing_for() const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->error) return milliseconds(0);
  return std::chrono::duration_cast<milliseconds>(Clock::now() - state_->failing_since);
}

void Reflector::State::run() {
  bool listed = false;
  try {
    while (true) {
      try {
        if (!listed) list();
        listed = true;
        const WatchEnd end = watch();
        if (end == WatchEnd::expired) listed = false;
        if (end != WatchEnd::in_order) pause();
      } catch (const ApiError& problem) {
        const bool passing = may_pass(problem);
        failed(passing ? ApiError(0, problem.reason(), problem.what(), problem.hint()) : problem);
        if (is_final(problem) && !passing) return;
        pause();
      } catch (const std::bad_alloc&) {
        failed(unreachable_error({Failure::Kind::other, "not enough memory"}, client.config()));
        listed = false;
        pause();
      }
    }
  } catch (const Stopped&) {
    return;  // the destructor waits for this thread
  }
}

void Reflector::State::list() {
  ListResult result = list_pages([this](const Request& request) { return send(request); }, resource,
                                 name_space, options, &client.config());
  version = result.resource_version;
  {
    const std::lock_guard lock(mutex);
    store.clear();
    for (json& item : result.items) put(std::move(item));
    is_synced = true;
  }
  well();
  changed();
}

bool Reflector::State::may_pass(const ApiError& problem) {
  if (problem.status() != 403 || !has_watched) return false;
  if (!refused_since) refused_since = Clock::now();
  return Clock::now() - *refused_since < times.refusal;
}

// Waits for the answer. If the destructor runs meanwhile, throws Stopped and ignores the answer.
Response Reflector::State::send(const Request& request) {
  Request bounded = request;
  bounded.timeout = times.answer;
  std::future<Answer> answer = client.ask(bounded);
  while (answer.wait_for(milliseconds(20)) != std::future_status::ready) check_stopping();
  return answer.get().value();
}

WatchEnd Reflector::State::watch() {
  Request request = list_request(resource, name_space, options, true);
  request.query.emplace_back("resourceVersion", version);
  request.query.emplace_back("timeoutSeconds", std::to_string(backoff.watch_seconds()));
  request.timeout = times.head;
  {
    const std::lock_guard lock(mutex);
    inbox = Inbox();
  }
  const Clock::time_point start = Clock::now();
  const auto post = [this](auto&& change) {
    {
      const std::lock_guard lock(mutex);
      change(inbox);
    }
    wake.notify_all();
  };
  const std::unique_ptr<Stream> stream = client.stream(
      request, [post](std::string_view line) { post([&](Inbox& box) { box.put(line); }); },
      [post](StreamEnd end) {
        post([&](Inbox& box) {
          if (!box.end) box.end = std::move(end);
        });
      },
      [post](int status) { post([&](Inbox& box) { box.opened = status == 200; }); });
  return read_watch(start);
}

WatchEnd Reflector::State::read_watch(Clock::time_point start) {
  bool had_events = false, opened = false;
  while (true) {
    Inbox news;
    {
      std::unique_lock lock(mutex);
      const bool woken = wake.wait_for(lock, times.silence, [this] {
        return stopping || !inbox.lines.empty() || inbox.end || inbox.opened;
      });
      if (stopping) throw Stopped();
      if (!woken) return WatchEnd::in_order;  // the watch was silent for too long; a new watch costs little
      news.lines.swap(inbox.lines);
      inbox.bytes = 0;
      news.end = std::move(inbox.end);
      std::swap(news.opened, inbox.opened);
    }
    if (news.opened) {
      well();
      has_watched = true;
      refused_since.reset();
    }
    opened = opened || news.opened;
    bool touched = false;
    std::optional<WatchEnd> verdict;
    for (const std::string& line : news.lines) {
      verdict = apply(line);
      if (verdict) break;
      had_events = touched = true;
    }
    if (touched) changed();
    if (verdict) return *verdict;
    if (news.end) return ended(*news.end, had_events, opened, start);
  }
}

// Applies one event. Returns a value if the watch cannot be used any more.
std::optional<WatchEnd> Reflector::State::apply(const std::string& line) {
  json event = json_or_null(without_managed_fields(line));
  if (!event.is_object() || !event.contains("object")) {
    failed(unreachable_error({Failure::Kind::broken, "a watch event was cut"}, client.config()));
    return WatchEnd::broken;
  }
  const std::string type = text_of(event, {"type"});
  json& object = event["object"];
  if (type == "ERROR") {
    const int code = number_of(object, {"code"}, 500);
    if (code == 410) return WatchEnd::expired;
    failed(status_error(code, object.dump(), describe(resource, name_space), &client.config()));
    return WatchEnd::broken;
  }
  repair(object);
  if (const std::string newer = version_of(object); !newer.empty()) version = newer;
  if (options.transform) options.transform(object);
  if (type == "DELETED" && removed) removed(object);
  const std::lock_guard lock(mutex);
  if (type == "ADDED" || type == "MODIFIED") {
    put(std::move(object));
  } else if (type == "DELETED") {
    store.erase(key_of(object));
  }
  return std::nullopt;
}

// Decides how the watch ended. `opened`: the server answered with 200.
WatchEnd Reflector::State::ended(const StreamEnd& end, bool had_events, bool opened,
                                 Clock::time_point start) {
  // If a server closes each watch at once, mlk must not send requests in a tight loop.
  const bool at_once = !had_events && Clock::now() - start < std::chrono::seconds(1);
  if (end.status == 200) return at_once ? WatchEnd::broken : WatchEnd::in_order;
  // After a cut connection, the next connection may work: as in client-go, the watch resumes without a wait.
  if (end.silent || (end.status == 0 && opened && !at_once)) return WatchEnd::in_order;
  if (end.status == 410) return WatchEnd::expired;
  if (end.status == 0) {
    failed(ApiError(0, "Unreachable", end.error));
    return WatchEnd::broken;
  }
  if (!end.error.empty()) throw ApiError(end.status, "NoCredentials", end.error);
  throw status_error(end.status, end.body, describe(resource, name_space), &client.config());
}

// Needs the mutex to be held.
void Reflector::State::put(json object) {
  const std::string key = key_of(object);  // before the move
  store.insert_or_assign(key, std::move(object));
}

void Reflector::State::pause() {
  std::unique_lock lock(mutex);
  wake.wait_for(lock, backoff.next(Clock::now()), [this] { return stopping; });
  if (stopping) throw Stopped();
}

void Reflector::State::check_stopping() const {
  const std::lock_guard lock(mutex);
  if (stopping) throw Stopped();
}

void Reflector::State::well() {
  const std::lock_guard lock(mutex);
  error = nullptr;
}

void Reflector::State::failed(const ApiError& why) {
  {
    const std::lock_guard lock(mutex);
    if (!error) failing_since = Clock::now();
    error = std::make_exception_ptr(why);
  }
  changed();
}

}  // namespace mlk::kube
