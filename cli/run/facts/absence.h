// Decides what the absence of a Job means: the Job was not made yet, or the Job is gone. Pure.
//
// When all objects of a run have been made, its owner gets annotations::created, which names the Jobs whose
// end is the end of the run. If one of these Jobs is absent later, it was deleted. Then mlk can tell how the
// run ended only if the end was recorded before. If an owner lacks the annotation, its objects may still be
// under creation, its submit may have been cut off, or an older version of mlk may have made the owner.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

enum class Absence {
  none,     // the Job is there
  not_yet,  // objects are being created, or all of them are being deleted
  cut_off,  // objects are missing, and nobody creates them any more
  unsure,   // the Job was made, but one list lacks it, perhaps because the list was read too early
  gone,     // the Job was made, but two lists lack it
};

struct JobPresence {
  bool there = false;
  bool made = false;          // the owner says that all objects were made
  bool found_gone = false;    // two lists have lacked the Job (annotations::gone)
  bool run_deleting = false;  // the owner is being deleted
  bool run_young = false;     // the run's submit may still be under way
};
Absence absence_of(const JobPresence& presence);

inline constexpr std::string_view job_is_gone =
    "its Job is gone (deleted, or its time to live passed); nobody recorded its end";

// The names of the deciding Jobs that were made (annotations::created). Empty if the owner has no such
// annotation.
std::vector<std::string> jobs_made(const nlohmann::json& owner);

// The names of the Jobs that two lists have lacked (annotations::gone).
std::vector<std::string> jobs_found_gone(const nlohmann::json& owner);

// Whether no second list is needed: each Job that was made is among `jobs` (the names of the Jobs that exist)
// or was found gone before.
bool are_gone(const nlohmann::json& owner, const std::set<std::string>& jobs);

// The Jobs for which a second list is needed: they were made, are not among `jobs` (the names of the Jobs
// that exist), and were not found gone before. Empty if the owner is being deleted or has a record of its
// end.
std::vector<std::string> absences_to_confirm(const nlohmann::json& owner, const std::set<std::string>& jobs);

}  // namespace mlk
