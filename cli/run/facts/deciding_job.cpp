#include "cli/run/facts/deciding_job.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/kube/resource.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/read_facts.h"
#include "cli/util/json_path.h"

namespace mlk {

using json = nlohmann::json;

bool is_job(const json& object) {
  const kube::Resource& jobs = kube::resources::jobs;
  return text_of(object, {"kind"}) == jobs.kind &&
         text_of(object, {"apiVersion"}) == kube::api_version_of(jobs);
}

std::string name_of_deciding_job(const std::vector<json>& objects) {
  std::vector<json> jobs;
  for (const json& object : objects) {
    if (is_job(object)) jobs.push_back(object);
  }
  const Facts facts = read_facts(jobs, {});
  const JobFacts* decider = facts.decider();
  // An unmarked Job may be only the first of several Jobs, since a controller (JobSet) may make the deciding
  // Job later.
  const bool marked = std::any_of(jobs.begin(), jobs.end(), [](const json& job) {
    return kube::annotation_of(job, annotations::decides) == "true";
  });
  const bool known = decider && (marked || decider->has_success_policy || decider->role == "worker");
  return known ? decider->name : "";
}

}  // namespace mlk
