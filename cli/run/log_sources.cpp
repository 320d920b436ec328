#include "cli/run/log_sources.h"

#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/run/facts.h"
#include "cli/run/status.h"

namespace mlk {

using json = nlohmann::json;

std::vector<std::pair<LogSource, const json*>> choose_sources(const std::vector<json>& pods,
                                                              const LogFilter& filter) {
  RunObjects objects;
  objects.pods = pods;
  const Facts facts = read_facts(objects);
  std::map<std::string, const PodFacts*> by_uid;
  for (const PodFacts& pod : facts.pods) by_uid[pod.uid] = &pod;
  std::vector<std::pair<LogSource, const json*>> sources;
  for (const json& pod : pods) {
    const PodFacts& known = *by_uid.at(kube::uid_of(pod));
    if (!filter.role.empty() && known.role != filter.role) continue;
    if (filter.rank && known.number != *filter.rank) continue;
    LogSource source;
    source.who.role = known.role;
    source.who.rank = known.number;
    source.who.attempt = known.failures_before + 1;
    source.who.pod = known.name;
    source.uid = source.who.uid = known.uid;
    source.node = text_of(pod, {"spec", "nodeName"});
    const json& containers = at_path(pod, {"spec", "containers"});
    if (containers.is_array() && !containers.empty())
      source.container = text_of(containers.front(), {"name"});
    sources.emplace_back(std::move(source), &pod);
  }
  return sources;
}

RunLogLine line_of(const LogSource& source, Time time, std::string text) {
  RunLogLine line = source.who;
  line.time = time;
  line.text = std::move(text);
  return line;
}

std::vector<long> tails_of(const std::vector<LogSource>& sources, const std::vector<long>& counts,
                           long tail) {
  std::vector<std::size_t> order(sources.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return sources[a].who.attempt > sources[b].who.attempt;
  });
  std::map<std::pair<std::string, int>, long> left;
  std::vector<long> tails(sources.size(), tail);
  for (const std::size_t at : order) {
    const RunLogLine& who = sources[at].who;
    long& of_rank = left.try_emplace({who.role, who.rank}, tail).first->second;
    tails[at] = of_rank;
    of_rank -= std::min(of_rank, counts[at]);
  }
  return tails;
}

std::vector<std::string> lost_logs(const RunStatus& status, const RunObjects& objects,
                                   const LogFilter& filter) {
  if (objects.pods.empty()) return {};  // said by itself
  std::set<std::pair<std::string, int>> here;
  for (const PodFacts& pod : read_facts(objects).pods) here.insert({pod.role, pod.number});
  const bool has_ended = is_final(status.phase) || status.phase == Phase::stopped;
  std::vector<std::string> lost;
  for (const RankStatus& rank : status.ranks) {
    if (!filter.role.empty() && filter.role != rank.role) continue;
    if (filter.rank && *filter.rank != rank.rank) continue;
    const bool has_run =
        has_ended || rank.restarts > 0 || rank.state == "Succeeded" || rank.state == "Failed";
    if (has_run && !here.contains({rank.role, rank.rank}))
      lost.push_back(rank.role + "/" + std::to_string(rank.rank));
  }
  constexpr std::size_t few = 3;
  if (lost.size() > few)
    return {"the logs of " + std::to_string(lost.size()) + " ranks, such as " + lost.front() +
            ", are gone: their pods were deleted"};
  for (std::string& rank : lost) rank = "the log of " + rank + " is gone: its pod was deleted";
  return lost;
}

std::vector<bool> shares_rank(const std::vector<LogSource>& sources) {
  std::map<std::pair<std::string, int>, int> pods;
  for (const LogSource& source : sources) ++pods[{source.who.role, source.who.rank}];
  std::vector<bool> shares;
  for (const LogSource& source : sources) shares.push_back(pods[{source.who.role, source.who.rank}] > 1);
  return shares;
}

}  // namespace mlk
