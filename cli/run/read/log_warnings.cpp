#include "cli/run/read/log_warnings.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/run/facts/facts.h"
#include "cli/run/facts/read_facts.h"

namespace mlk {
namespace {

using std::chrono::milliseconds;

using CauseAndNode = std::pair<std::string, std::string>;
using PodsByCause = std::map<CauseAndNode, std::vector<std::string>>;

PodsByCause pods_by_cause(const std::vector<LogProblem>& problems) {
  PodsByCause pods;
  for (const LogProblem& problem : problems) pods[{problem.cause, problem.node}].push_back(problem.pod);
  return pods;
}

std::string sentence_of(const CauseAndNode& key, const std::vector<std::string>& pods) {
  const auto& [cause, node] = key;
  std::string text = "no logs of ";
  text +=
      pods.size() == 1 ? pods.front() : std::to_string(pods.size()) + " pods, such as " + pods.front() + ",";
  if (!node.empty()) text += " on node " + node;
  if (text.ends_with(',')) text.pop_back();
  return text + ": " + cause;
}

}  // namespace

std::vector<std::string> sentences_of(const std::vector<LogProblem>& problems) {
  std::vector<std::string> sentences;
  for (const auto& [key, pods] : pods_by_cause(problems)) sentences.push_back(sentence_of(key, pods));
  return sentences;
}

std::vector<std::string> LogWarnings::due(const std::vector<LogProblem>& problems, Clock::time_point now) {
  const PodsByCause pods = pods_by_cause(problems);
  std::erase_if(since_, [&](const auto& entry) { return !pods.contains(entry.first); });
  std::vector<std::string> sentences;
  for (const auto& [key, names] : pods) {
    const Clock::time_point since = since_.try_emplace(key, now).first->second;
    if (now - since < lasting || !told_.insert(key).second) continue;
    sentences.push_back(sentence_of(key, names));
  }
  return sentences;
}

std::vector<std::string> LogWarnings::rest(const std::vector<LogProblem>& problems) {
  std::vector<std::string> sentences;
  for (const auto& [key, names] : pods_by_cause(problems)) {
    if (told_.insert(key).second) sentences.push_back(sentence_of(key, names));
  }
  return sentences;
}

std::string said_by_node(const std::string& node, const std::string& pod, const std::string& said) {
  return (node.empty() ? pod : "node " + node) + ": " + said;
}

std::vector<std::string> lost_logs(const RunStatus& status, const std::vector<nlohmann::json>& pods,
                                   const LogFilter& filter) {
  std::set<std::pair<std::string, int>> here;
  for (const PodFacts& pod : read_facts(std::vector<nlohmann::json>(), pods).pods)
    here.insert({pod.role, pod.number});
  const bool has_ended = is_final(status.phase) || status.phase == Phase::stopped;
  std::vector<std::string> lost;
  for (const RankStatus& rank : status.ranks) {
    if (!filter.role.empty() && filter.role != rank.role) continue;
    if (filter.rank && *filter.rank != rank.rank) continue;
    const bool has_run = (has_ended && status.started) || rank.restarts > 0 || rank.state == "Succeeded" ||
                         rank.state == "Failed";
    if (has_run && !here.contains({rank.role, rank.rank}))
      lost.push_back(rank.role + "/" + std::to_string(rank.rank));
  }
  const std::string why = status.phase == Phase::stopped ? " when the run was stopped" : "";
  constexpr std::size_t few = 3;
  if (lost.size() > few)
    return {"the logs of " + std::to_string(lost.size()) + " ranks, such as " + lost.front() +
            ", are gone: their pods were deleted" + why};
  for (std::string& rank : lost) rank = "the log of " + rank + " is gone: its pod was deleted" + why;
  return lost;
}

bool seems_cut(const LogShape& shape) {
  constexpr double kept = 8u << 20;
  constexpr milliseconds least{1'000};
  const double milliseconds_said = static_cast<double>(std::max(shape.span, least).count());
  const double rate = static_cast<double>(shape.bytes) / milliseconds_said;
  return rate * static_cast<double>(shape.before.count()) >= kept;
}

}  // namespace mlk
