// Runs on the cluster: by the name that was typed, all of one, or all there are.
#pragma once

#include <string>
#include <vector>

#include "cli/run/status.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

// Everything of one run, read once, in four requests side by side, and one more if a Job ended between them.
// Throws Error{not_found} without an owner.
RunObjects fetch_run(kube::Client& client, const std::string& name_space, const std::string& run);

// Throws Error{usage} for an empty name: that of a shell variable that was never set.
void require_run_name(const std::string& typed);

// The full name of the run that `typed` means: the run of that name, else the newest run of the experiment of
// that name. Throws Error{not_found} with the nearest name as a hint.
std::string find_run(kube::Client& client, const std::string& name_space, const std::string& typed);

// All runs of the namespace, newest first: three requests side by side however many there are.
// `why` of a run that waits is poorer than fetch_run's: no events are read.
std::vector<RunStatus> list_runs(kube::Client& client, const std::string& name_space, Time now);

// Whether a Job has ended and a pod of it has not: the pods were read before the Jobs.
bool pods_are_older(const RunObjects& objects);

// The pure part of find_run, on the owners' metadata.
std::string choose_run(const std::vector<nlohmann::json>& owners, const std::string& name_space,
                       const std::string& typed);
// The pure part of list_runs.
std::vector<RunStatus> observe_all(std::vector<nlohmann::json> owners, std::vector<nlohmann::json> jobs,
                                   std::vector<nlohmann::json> pods, Time now);

}  // namespace mlk
