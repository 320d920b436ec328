// The parts of a pod that a template cannot express: environment, volumes, resources, failure rules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/experiment.h"
#include "cli/render/code.h"
#include "cli/render/helper.h"
#include "cli/render/mounts.h"
#include "cli/render/user.h"

namespace mlk {

// One role of this run. All values are final.
struct RoleInRun {
  std::string name;
  Role size;
  bool ends_run = false;
  std::vector<std::string> final_codes;  // exit codes and ranges
};

inline constexpr int pod_port = 7070;  // every pod listens for other pods on this port

// Returns host:port of a pod. `rank`: a number, or a reference to a variable such as $(MLK_RANK).
std::string pod_address(const std::string& run, const std::string& role, const std::string& rank);

struct PodContext {
  const Experiment& experiment;
  const std::string& run;
  const std::vector<RoleInRun>& roles;
  const std::string& files_of;  // the run or sweep whose copies of the `files:` entries are mounted
  const std::optional<CodeArchive>& code;
  const std::string& python_on_machine;  // FileContents::python_on_machine
  bool key = false;                      // whether the pods get the key of the run
  const std::vector<Helper>& helpers;    // the programs of mlk in the pods
  const std::string& outputs_claim;      // FileContents::outputs_claim
  const PodUser& user;
};

// Returns the variables of mlk, then those of the templates, then those of the user. In this order, a
// variable may refer to variables before it. A later variable replaces an earlier one of the same name.
// `of_templates`: map of names to text.
nlohmann::json pod_environment(const PodContext& context, const RoleInRun& role,
                               const nlohmann::json& of_templates);

// The folder of one run in `checkpoint.volume`; each run that uses the volume has its own folder.
std::string checkpoint_folder(const std::string& run, const std::string& owner_uid);
// The path of checkpoint_folder() in the pods, below the volume's mount path:
// "/mlk/checkpoints/digits-abcde-0f8fad5b".
std::string run_path(const std::string& mount, const std::string& run, const std::string& owner_uid);

struct Volumes {
  nlohmann::json volumes, mounts;  // lists
};
Volumes pod_volumes(const PodContext& context);

nlohmann::json pod_resources(const Role& size);

// The tolerations of the user and of mlk. With those of mlk, a pod leaves a lost node after 30 s, instead of
// the usual 5 minutes.
nlohmann::json pod_tolerations(const Experiment& experiment);

// The rules of podFailurePolicy: which exits are final, and which exits do not count as failures of the run.
nlohmann::json failure_rules(const Experiment& experiment, const RoleInRun& role);

}  // namespace mlk
