#include "cli/run/read/log_follower.h"

#include <algorithm>
#include <mutex>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/kube/log_follower.h"
#include "cli/kube/objects.h"
#include "cli/run/read/run_logs.h"

namespace mlk {
namespace {

using json = nlohmann::json;

constexpr std::size_t most_held_lines = 100'000;

}  // namespace

void LogMerger::push(int stream, RunLogLine line, Clock::time_point arrived) {
  Time& newest = newest_[stream];
  newest = std::max(newest, line.time);
  held_.emplace(std::pair(newest, stream), Held{std::move(line), arrived});
}

std::vector<RunLogLine> LogMerger::take(Clock::time_point now) {
  // All lines that are earlier than a due line are returned with it. Otherwise a stream with a slow clock
  // would hold back all other streams for ever.
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

struct RunLogFollower::State {
  kube::Client& client;
  const std::string name_space;
  const LogFilter filter;

  State(kube::Client& used, std::string where, LogFilter wanted)
      : client(used), name_space(std::move(where)), filter(std::move(wanted)) {}

  std::mutex mutex;
  LogMerger merger;   // guarded by the mutex
  bool full = false;  // no more lines arrive until half of the lines are taken; guarded by the mutex

  struct Followed {
    std::string pod, node;
    std::unique_ptr<kube::LogFollower> follower;
  };
  bool first_update = true;
  std::set<std::string> noted;
  LogWarnings warnings;
  int next_stream = 0;
  std::map<std::pair<std::string, std::string>, Followed>
      followed;  // by uid and container; declared last, so that it is destroyed first

  // Runs on the client's loop thread, as room() does.
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
  // If a pod has ended before its program started, the log of the program is not read any more.
  for (const json& pod : pods) {
    std::erase_if(state.followed, [&](const auto& entry) {
      return entry.first.first == kube::uid_of(pod) && chosen.count(entry.first) == 0;
    });
  }
  std::vector<long> tails;
  if (state.first_update && state.filter.tail)
    tails = count_tails(state.client, state.name_space, sources, *state.filter.tail);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto& [source, pod] = sources[i];
    const std::pair key(source.who.uid, source.container);
    auto found = state.followed.find(key);
    if (found == state.followed.end()) {
      kube::LogFollower::Start start;
      // Only the first pods get a limit: pods that appear later have no lines that are old enough to be left
      // out.
      if (!tails.empty()) start.tail_lines = tail_lines(tails[i]);
      if (state.first_update) start.since = state.filter.since;
      const int stream = state.next_stream++;
      auto follower = std::make_unique<kube::LogFollower>(
          state.client, state.name_space, source.who.pod, source.container, start,
          kube::LogFollower::Reader{.line =
                                        [&state, stream, source = source](const kube::LogLine& line) {
                                          state.push(stream, line_of(source, line.time, line.text));
                                        },
                                    .room = [&state] { return state.room(); }});
      State::Followed one{source.who.pod, source.node, std::move(follower)};
      found = state.followed.emplace(key, std::move(one)).first;
    }
    found->second.node = source.node;
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

std::vector<LogProblem> RunLogFollower::problems() const {
  std::vector<LogProblem> problems;
  for (const auto& [key, one] : state_->followed) {
    if (std::string cause = one.follower->problem(); !cause.empty())
      problems.push_back({one.pod, one.node, std::move(cause)});
  }
  return problems;
}

std::vector<std::string> RunLogFollower::new_warnings(When when) {
  State& state = *state_;
  std::vector<std::string> fresh;
  for (const auto& [key, one] : state.followed) {
    for (const std::string& note : one.follower->notes()) {
      std::string text = said_by_node(one.node, one.pod, note);
      if (state.noted.insert(text).second) fresh.push_back(std::move(text));
    }
  }
  const std::vector<std::string> of_problems =
      when == When::at_end ? state.warnings.rest(problems())
                           : state.warnings.due(problems(), LogWarnings::Clock::now());
  fresh.insert(fresh.end(), of_problems.begin(), of_problems.end());
  return fresh;
}

}  // namespace mlk
