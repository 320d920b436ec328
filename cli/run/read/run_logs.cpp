#include "cli/run/read/run_logs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/kube/list.h"
#include "cli/run/read/log_warnings.h"
#include "cli/util/json_path.h"

namespace mlk {
namespace {

using json = nlohmann::json;
using Sources = std::vector<std::pair<LogSource, const json*>>;
using std::chrono::milliseconds;
using std::chrono::seconds;

bool has_not_started(const json& pod) { return text_of(pod, {"status", "phase"}) == "Pending"; }

std::string rank_name(const LogSource& source) {
  return source.who.role + "/" + std::to_string(source.who.rank);
}

// When a container started, if this is known.
std::optional<Time> start_of(const std::string& container, const json& pod) {
  const json& statuses = at_path(pod, {"status", "containerStatuses"});
  if (!statuses.is_array()) return std::nullopt;
  for (const json& status : statuses) {
    if (text_of(status, {"name"}) != container) continue;
    for (const char* state : {"running", "terminated"}) {
      if (const auto time = time_of(status, {"state", state, "startedAt"})) return time;
    }
  }
  return std::nullopt;
}

// The warning about a log that was read as a whole but whose beginning is probably deleted; empty if there is
// none.
std::string cut_beginning(const LogRead& log, const json& pod) {
  const std::optional<Time> started = start_of(log.source.container, pod);
  if (log.options.tail_lines || log.options.since || !started || !log.first || !log.last) return "";
  LogShape shape{.bytes = log.bytes};
  shape.before = std::chrono::duration_cast<milliseconds>(*log.first - *started);
  shape.span = std::chrono::duration_cast<milliseconds>(*log.last - *log.first);
  if (!seems_cut(shape)) return "";
  return fmt::format(
      "older lines of {} seem to be gone: its log begins {} after its start, since a node keeps the newest "
      "10 MiB or so",
      rank_name(log.source), format_duration(std::chrono::duration_cast<seconds>(shape.before)));
}

// What is wrong with the logs that were read: sentences for people. Throws if the server refused a log, or
// answered no request.
std::vector<std::string> problems_of(const std::vector<LogRead>& logs, const Sources& sources,
                                     const kube::Config& config) {
  std::vector<std::string> sentences, waiting;  // waiting: the ranks without a log
  std::vector<LogProblem> missing;
  std::set<std::string> said;
  bool answered = logs.empty();
  std::optional<kube::ApiError> unanswered;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    const LogRead& log = logs[i];
    const RunLogLine& who = log.source.who;
    for (const std::string& text : log.said) said.insert(said_by_node(log.source.node, who.pod, text));
    if (log.end.status == 200) {
      answered = true;
      if (std::string text = cut_beginning(log, *sources[i].second); !text.empty())
        sentences.push_back(std::move(text));
      continue;
    }
    // A status from 500 up usually means that the API server does not reach the node of this pod. A status of
    // 400 or 404 usually means that there is no log. So only this log is missing. If one log gets no answer,
    // the API server itself may be silent, too. mlk assumes this only if no log gets an answer.
    const kube::ApiError error = kube::log_error(log.end, config);
    const bool silent = error.status() == 0;
    if (!silent && error.status() != 400 && error.status() != 404 && error.status() < 500)
      throw kube::ApiError(
          error.status(), error.reason(),
          "log of " + kube::describe(kube::resources::pods, config.name_space, who.pod) + ": " + error.what(),
          error.hint());
    if (silent && !unanswered) unanswered = error;
    answered = answered || !silent;
    if (error.status() == 400 && has_not_started(*sources[i].second)) {
      waiting.push_back(rank_name(log.source));
    } else {
      missing.push_back({who.pod, log.source.node, error.what()});
    }
  }
  if (!answered) throw *unanswered;  // the API server itself does not answer
  sentences.insert(sentences.end(), said.begin(), said.end());
  const std::vector<std::string> of_missing = sentences_of(missing);
  sentences.insert(sentences.end(), of_missing.begin(), of_missing.end());
  if (waiting.size() == 1)
    sentences.push_back(waiting.front() + " has no log yet: its container has not started");
  if (waiting.size() > 1)
    sentences.push_back(std::to_string(waiting.size()) + " ranks have no log yet, such as " +
                        waiting.front() + ": their containers have not started");
  return sentences;
}

}  // namespace

int tail_lines(long lines) { return static_cast<int>(std::min(lines, 1'000'000'000L)); }

std::vector<long> count_tails(kube::Client& client, const std::string& name_space, const Sources& sources,
                              long tail) {
  std::vector<LogSource> all;
  for (const auto& [source, pod] : sources) all.push_back(source);
  const std::vector<bool> shares = shares_rank(all);
  std::vector<LogRead> logs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (shares[i]) logs.push_back({all[i], {.container = all[i].container, .tail_lines = tail_lines(tail)}});
  }
  std::map<std::pair<std::string, std::string>, long> lines;  // by the pod's uid and the container
  read_logs(client, name_space, logs,
            {.line = [&](const RunLogLine& line) { return ++lines[{line.uid, line.container}], true; }});
  std::vector<long> counts;
  for (const LogSource& source : all) counts.push_back(lines[{source.who.uid, source.who.container}]);
  return tails_of(all, counts, tail);
}

void read_run_logs(kube::Client& client, const std::string& name_space, const std::vector<json>& pods,
                   const LogFilter& filter, const LogTaker& taker, std::vector<std::string>* problems) {
  const Sources sources = choose_sources(pods, filter);
  std::vector<long> tails;
  if (filter.tail) tails = count_tails(client, name_space, sources, *filter.tail);
  std::vector<LogRead> logs;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    kube::LogOptions options{.container = sources[i].first.container, .since = filter.since};
    if (filter.tail) options.tail_lines = tail_lines(tails[i]);
    logs.push_back({sources[i].first, std::move(options)});
  }
  read_logs(client, name_space, logs, taker);
  std::vector<std::string> sentences = problems_of(logs, sources, client.config());
  if (problems) *problems = std::move(sentences);
}

}  // namespace mlk
