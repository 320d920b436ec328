#include "cli/run/absence.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/kube/resource.h"
#include "cli/run/facts.h"
#include "cli/run/labels.h"
#include "cli/run/status.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {

using json = nlohmann::json;

Absence absence_of(const JobPresence& presence) {
  if (presence.there) return Absence::none;
  if (presence.run_deleting) return Absence::not_yet;
  if (presence.made) return presence.found_gone ? Absence::gone : Absence::unsure;
  return presence.run_young ? Absence::not_yet : Absence::cut_off;
}

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
  // Another one is only the first of those that are known, and the run's own may be a controller's (JobSet).
  const bool marked = std::any_of(jobs.begin(), jobs.end(), [](const json& job) {
    return kube::annotation_of(job, labels::decides) == "true";
  });
  const bool known = decider && (marked || decider->has_success_policy || decider->role == "worker");
  return known ? decider->name : "";
}

namespace {

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

std::vector<std::string> missing_jobs(const json& owner, const std::set<std::string>& jobs) {
  std::vector<std::string> names = jobs_made(owner);
  const std::vector<std::string> gone = jobs_found_gone(owner);
  std::erase_if(names, [&](const std::string& name) {
    return jobs.count(name) > 0 || std::find(gone.begin(), gone.end(), name) != gone.end();
  });
  return names;
}

}  // namespace

std::vector<std::string> jobs_made(const json& owner) {
  return names_in(kube::annotation_of(owner, labels::created));
}

std::vector<std::string> jobs_found_gone(const json& owner) {
  return names_in(kube::annotation_of(owner, labels::gone));
}

bool are_gone(const json& owner, const std::set<std::string>& jobs) {
  return missing_jobs(owner, jobs).empty();
}

std::vector<std::string> jobs_to_look_for(const json& owner, const std::set<std::string>& jobs) {
  const std::optional<Phase> recorded = parse_phase(kube::annotation_of(owner, labels::phase));
  const bool deleting = at_path(owner, {"metadata", "deletionTimestamp"}).is_string();
  if (deleting || (recorded && is_final(*recorded))) return {};
  return missing_jobs(owner, jobs);
}

}  // namespace mlk
