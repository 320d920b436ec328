#include "cli/run/log_follower.h"

#include <algorithm>
#include <future>
#include <mutex>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/kube/logs.h"
#include "cli/kube/objects.h"
#include "cli/run/facts.h"
#include "cli/run/log_sources.h"

namespace mlk {
namespace {

using json = nlohmann::json;

constexpr std::size_t most_held_lines = 100'000;
constexpr std::size_t reads_at_once = 16;

bool has_not_started(const json& pod) { return text_of(pod, {"status", "phase"}) == "Pending"; }

RunLogLine line_from(const LogSource& source, Time time, std::string text) {
  RunLogLine line = source.who;
  line.time = time;
  line.text = std::move(text);
  return line;
}

}  // namespace

void LogMerger::push(int stream, RunLogLine line, Clock::time_point arrived) {
  Time& newest = newest_[stream];
  newest = std::max(newest, line.time);
  held_.emplace(std::pair(newest, stream), Held{std::move(line), arrived});
}

std::vector<RunLogLine> LogMerger::take(Clock::time_point now) {
  // Whatever is earlier than a line that is due goes with it: waiting for it longer would let a stream with a
  // slow clock hold back all others for ever.
  auto end = held_.begin();
  for (auto it = held_.begin(); it != held_.end(); ++it) {
    if (it->second.arrived + window_ <= now) end = std::next(it);
  }
  std::vector<RunLogLine> lines;
  for (auto it = held_.begin(); it != end; ++it) lines.push_back(std::move(it->second.line));
  held_.erase(held_.begin(), end);
  return lines;
}

std::vector<RunLogLine> LogMerger::take_all() { return take(Clock::time_point::max()); }

std::vector<RunLogLine> read_run_logs(kube::Client& client, const std::string& name_space,
                                      const std::vector<json>& pods, const LogFilter& filter,
                                      std::vector<std::string>* problems) {
  const auto sources = choose_sources(pods, filter);
  LogMerger merger;
  bool answered = sources.empty();
  std::optional<kube::ApiError> unanswered;
  std::vector<std::string> waiting;  // the ranks without a log
  for (std::size_t first = 0; first < sources.size(); first += reads_at_once) {
    const std::size_t last = std::min(first + reads_at_once, sources.size());
    std::vector<std::future<std::vector<kube::LogLine>>> reads;
    for (std::size_t i = first; i < last; ++i) {
      kube::LogOptions options;
      options.container = sources[i].first.container;
      if (filter.tail) options.tail_lines = static_cast<int>(std::min(*filter.tail, 1'000'000'000L));
      options.since = filter.since;
      reads.push_back(
          std::async(std::launch::async, [&client, &name_space, &source = sources[i].first, options] {
            return kube::read_log(client, name_space, source.who.pod, options);
          }));
    }
    for (std::size_t i = first; i < last; ++i) {
      const LogSource& source = sources[i].first;
      try {
        for (kube::LogLine& line : reads[i - first].get()) {
          merger.push(static_cast<int>(i), line_from(source, line.time, std::move(line.text)), {});
        }
        answered = true;
      } catch (const kube::ApiError& error) {
        // 500, or no answer at all: the API server does not reach the node of this pod; the others are not
        // silent for that.
        const bool silent = error.status() == 0;
        if (!silent && error.status() != 400 && error.status() != 404 && error.status() < 500) throw;
        if (silent && !unanswered) unanswered = error;
        answered = answered || !silent;
        if (error.status() == 400 && has_not_started(*sources[i].second)) {
          waiting.push_back(source.who.role + "/" + std::to_string(source.who.rank));
        } else if (problems) {
          problems->push_back(source.who.pod + ": " + error.what());
        }
      }
    }
  }
  if (!answered) throw *unanswered;  // it is the API server that does not answer
  if (problems && waiting.size() == 1)
    problems->push_back(waiting.front() + " has no log yet: its container has not started");
  if (problems && waiting.size() > 1)
    problems->push_back(std::to_string(waiting.size()) + " ranks have no log yet, such as " +
                        waiting.front() + ": their containers have not started");
  return merger.take_all();
}

struct RunLogFollower::State {
  kube::Client& client;
  const std::string name_space;
  const LogFilter filter;

  State(kube::Client& used, std::string where, LogFilter wanted)
      : client(used), name_space(std::move(where)), filter(std::move(wanted)) {}

  std::mutex mutex;
  LogMerger merger;   // under it
  bool full = false;  // under it: nothing more comes until half of it was taken

  struct Followed {
    std::string pod;
    std::unique_ptr<kube::LogFollower> follower;
  };
  bool first_update = true;
  int next_stream = 0;
  std::map<std::pair<std::string, std::string>, Followed>
      followed;  // by uid and container; last, so that it goes first

  // On the client's loop thread, as room().
  void push(int stream, RunLogLine line) {
    const std::lock_guard lock(mutex);
    if (filter.lossy && merger.size() >= most_held_lines) merger.drop_first();
    merger.push(stream, std::move(line), LogMerger::Clock::now());
  }

  bool room() {
    const std::lock_guard lock(mutex);
    full = merger.size() >= (full ? most_held_lines / 2 : most_held_lines);
    return filter.lossy || !full;
  }
};

RunLogFollower::RunLogFollower(kube::Client& client, std::string name_space, LogFilter filter)
    : state_(std::make_unique<State>(client, std::move(name_space), std::move(filter))) {}

RunLogFollower::~RunLogFollower() = default;

void RunLogFollower::update(const std::vector<json>& pods) {
  State& state = *state_;
  const auto sources = choose_sources(pods, state.filter);
  std::set<std::pair<std::string, std::string>> chosen;
  for (const auto& [source, pod] : sources) chosen.emplace(source.who.uid, source.container);
  // A pod may end before its program has started.
  for (const json& pod : pods) {
    std::erase_if(state.followed, [&](const auto& entry) {
      return entry.first.first == kube::uid_of(pod) && chosen.count(entry.first) == 0;
    });
  }
  for (const auto& [source, pod] : sources) {
    const std::pair key(source.who.uid, source.container);
    auto found = state.followed.find(key);
    if (found == state.followed.end()) {
      kube::LogFollower::Start start;
      // Pods that appear later are new: nothing of theirs is old enough to be left out.
      if (state.first_update && state.filter.tail)
        start.tail_lines = static_cast<int>(std::min(*state.filter.tail, 1'000'000'000L));
      if (state.first_update) start.since = state.filter.since;
      const int stream = state.next_stream++;
      auto follower = std::make_unique<kube::LogFollower>(
          state.client, state.name_space, source.who.pod, source.container, start,
          kube::LogFollower::Reader{.line =
                                        [&state, stream, source = source](const kube::LogLine& line) {
                                          state.push(stream, line_from(source, line.time, line.text));
                                        },
                                    .room = [&state] { return state.room(); }});
      found = state.followed.emplace(key, State::Followed{source.who.pod, std::move(follower)}).first;
    }
    found->second.follower->update(*pod);
  }
  if (!pods.empty()) state.first_update = false;
}

std::vector<RunLogLine> RunLogFollower::take() {
  const bool all = finished();
  std::vector<RunLogLine> lines;
  {
    const std::lock_guard lock(state_->mutex);
    lines = all ? state_->merger.take_all() : state_->merger.take(LogMerger::Clock::now());
  }
  for (const auto& [uid, one] : state_->followed) one.follower->resume();
  return lines;
}

bool RunLogFollower::finished() const {
  return std::all_of(state_->followed.begin(), state_->followed.end(),
                     [](const auto& entry) { return entry.second.follower->finished(); });
}

std::set<std::string> RunLogFollower::unfinished() const {
  std::set<std::string> uids;
  for (const auto& [key, one] : state_->followed) {
    if (!one.follower->finished()) uids.insert(key.first);
  }
  return uids;
}

std::vector<std::string> RunLogFollower::problems() const {
  std::vector<std::string> problems;
  for (const auto& [uid, one] : state_->followed) {
    const std::string problem = one.follower->problem();
    if (!problem.empty()) problems.push_back(one.pod + ": " + problem);
  }
  return problems;
}

}  // namespace mlk
