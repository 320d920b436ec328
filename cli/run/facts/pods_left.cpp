#include "cli/run/facts/pods_left.h"

#include "cli/run/facts/read_facts.h"

namespace mlk {

std::vector<const PodFacts*> pods_left(const Facts& facts) {
  std::vector<const PodFacts*> pods;
  for (const PodFacts& pod : facts.pods) {
    if (pod.left && !pod.ended()) pods.push_back(&pod);
  }
  return pods;
}

std::set<std::string> jobs_with_pods_left(const RunObjects& run) {
  const Facts facts = read_facts(run);
  std::set<std::string> jobs;
  for (const PodFacts* pod : pods_left(facts)) jobs.insert(pod->job);
  return jobs;
}

}  // namespace mlk
