// What it means that a Job is not there: that it was not made yet, or that it is gone. Pure.
//
// When all objects of a run have been made, its owner says so (annotations::created), and names the Jobs
// whose end is the end of the run. From then on the absence of one of these is an end that nobody has
// recorded. An owner that does not say so may still be getting its objects, or its submit was cut off, or an
// earlier mlk has made it.
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
  unsure,   // it was made, and one list lacks it: lists are read at different moments
  gone,     // it was made, and two lists lack it
};

struct JobPresence {
  bool there = false;
  bool made = false;          // the owner says that all objects were made
  bool found_gone = false;    // an earlier list lacked it, too (annotations::gone)
  bool run_deleting = false;  // the owner is being deleted
  bool run_young = false;     // its submit may still be under way
};
Absence absence_of(const JobPresence& presence);

// "its Job is gone (deleted, or its time to live passed); nobody recorded its end"
inline constexpr std::string_view job_is_gone =
    "its Job is gone (deleted, or its time to live passed); nobody recorded its end";

// The Jobs that the owner says were made, without others that belong to it. Empty: it does not say.
std::vector<std::string> jobs_made(const nlohmann::json& owner);

// Those of which two lists have said that they are not there any more.
std::vector<std::string> jobs_found_gone(const nlohmann::json& owner);

// Whether each Job that was made and is not among `jobs` (names) was found gone; true if none is missing.
bool are_gone(const nlohmann::json& owner, const std::set<std::string>& jobs);

// Those that were made, are not among `jobs` (names), and of which nothing is known yet: they were not found
// gone before, and the owner is not being deleted and has no record of its end.
std::vector<std::string> jobs_to_look_for(const nlohmann::json& owner, const std::set<std::string>& jobs);

}  // namespace mlk
