#include "cli/run/facts/absence.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/phase.h"
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

namespace {

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names = split(text, ',');
  std::erase(names, std::string());
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
  return names_in(kube::annotation_of(owner, annotations::created));
}

std::vector<std::string> jobs_found_gone(const json& owner) {
  return names_in(kube::annotation_of(owner, annotations::gone));
}

bool are_gone(const json& owner, const std::set<std::string>& jobs) {
  return missing_jobs(owner, jobs).empty();
}

std::vector<std::string> absences_to_confirm(const json& owner, const std::set<std::string>& jobs) {
  const std::optional<Phase> recorded = parse_phase(kube::annotation_of(owner, annotations::phase));
  const bool deleting = at_path(owner, {"metadata", "deletionTimestamp"}).is_string();
  if (deleting || (recorded && is_final(*recorded))) return {};
  return missing_jobs(owner, jobs);
}

}  // namespace mlk
