// The parts of a pod that a template cannot express: environment, volumes, resources, failure rules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/experiment.h"
#include "cli/render/code.h"
#include "cli/render/user.h"

namespace mlk {

// One role of this run, with all values known.
struct RoleInRun {
  std::string name;
  Role size;
  bool ends_run = false;
  std::vector<std::string> final_codes;  // exit codes and ranges
};

inline constexpr int pod_port = 7070;  // every pod listens for other pods on this port

// host:port of a pod; rank may be a reference to a variable.
std::string pod_address(const std::string& run, const std::string& role, const std::string& rank);

struct PodContext {
  const Experiment& experiment;
  const std::string& run;
  const std::vector<RoleInRun>& roles;
  const std::string& files_of;  // the run or sweep whose copies of the `files:` entries are mounted
  const std::optional<CodeArchive>& code;
  const std::string& python_on_machine;  // FileContents::python_on_machine
  bool key = false;                      // the pods have the key of the run
  const std::string& helper;             // program of mlk in the pods; empty: none
  const PodUser& user;
};

// Variables in the order in which they may refer to each other: first those of mlk, then of the templates,
// then of the user. A later variable replaces an earlier one of the same name.
// `of_templates`: map of names to text.
nlohmann::json pod_environment(const PodContext& context, const RoleInRun& role,
                               const nlohmann::json& of_templates);

inline constexpr char checkpoint_volume[] = "mlk-checkpoints";  // name of `checkpoint.volume` in the pods

// The folder of one run in `checkpoint.volume`; each run that uses the volume has its own folder.
std::string checkpoint_folder(const std::string& run, const std::string& owner_uid);
// The path of this folder in the pods: "/mlk/checkpoints/digits-abcde-0f8fad5b".
std::string checkpoint_path(const std::string& run, const std::string& owner_uid);

struct Volumes {
  nlohmann::json volumes, mounts;  // lists
};
Volumes pod_volumes(const PodContext& context);

nlohmann::json pod_resources(const Role& size);

// The user's tolerations and mlk's: a pod leaves a lost node after 30 s, instead of the usual 5 minutes.
nlohmann::json pod_tolerations(const Experiment& experiment);

// The rules of podFailurePolicy: which exits are final, and which exits do not count as failures of the run.
nlohmann::json failure_rules(const Experiment& experiment, const RoleInRun& role);

}  // namespace mlk
