#include "cli/run/read/log_sources.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/run/facts/at_fault.h"
#include "cli/run/facts/facts.h"
#include "cli/run/facts/read_facts.h"

namespace mlk {
namespace {

using json = nlohmann::json;

std::vector<std::string> containers_of(const PodFacts& pod, const std::string& main,
                                       const std::string& wanted) {
  if (!wanted.empty()) {
    const bool there =
        wanted == main || std::any_of(pod.others.begin(), pod.others.end(),
                                      [&](const Container& other) { return other.name == wanted; });
    return there ? std::vector{wanted} : std::vector<std::string>();
  }
  std::vector<std::string> out;
  const Container* held = holding_up(pod);
  const bool failed = held != nullptr && at_fault(pod) == held;
  if (failed) out.push_back(held->name);
  if (!failed || !pod.ended()) out.push_back(main);
  return out;
}

void add_new_name(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

using RankName = std::pair<std::string, int>;
RankName rank_of(const LogSource& source) { return {source.who.role, source.who.rank}; }

}  // namespace

std::vector<std::pair<LogSource, const json*>> choose_sources(const std::vector<json>& pods,
                                                              const LogFilter& filter) {
  const Facts facts = read_facts(std::vector<json>(), pods);
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
    source.who.uid = known.uid;
    source.node = known.node;
    const std::string main = main_container_of(pod);
    for (const std::string& container : containers_of(known, main, filter.container)) {
      source.container = container;
      source.who.container = container == main ? "" : container;
      sources.emplace_back(source, &pod);
    }
  }
  return sources;
}

std::vector<std::string> container_names(const std::vector<json>& pods) {
  std::vector<std::string> names;
  for (const json& pod : pods) add_new_name(names, main_container_of(pod));
  for (const json& pod : pods) {
    for (const Container& other : read_containers(pod).others) add_new_name(names, other.name);
  }
  return names;
}

RunLogLine line_of(const LogSource& source, Time time, std::string text) {
  RunLogLine line = source.who;
  line.time = time;
  line.text = std::move(text);
  return line;
}

std::vector<bool> shares_rank(const std::vector<LogSource>& sources) {
  std::map<RankName, int> logs;
  for (const LogSource& source : sources) ++logs[rank_of(source)];
  std::vector<bool> shares;
  for (const LogSource& source : sources) shares.push_back(logs[rank_of(source)] > 1);
  return shares;
}

std::vector<long> tails_of(const std::vector<LogSource>& sources, const std::vector<long>& counts,
                           long tail) {
  std::vector<std::size_t> order(sources.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return sources[a].who.attempt > sources[b].who.attempt; });
  std::map<RankName, long> left;
  std::vector<long> tails(sources.size());
  for (const std::size_t at : order) {
    long& of_rank = left.try_emplace(rank_of(sources[at]), tail).first->second;
    tails[at] = of_rank;
    of_rank -= std::min(of_rank, counts[at]);
  }
  return tails;
}

}  // namespace mlk
