// A job type: the roles of a run. A template in templates/jobs/ describes it.
#pragma once

#include <string>
#include <vector>

#include "cli/render/templates.h"
#include "cli/yaml/yaml.h"

namespace mlk {

struct RoleTemplate {
  std::string name;
  int count = 1;                                            // number of pods if the experiment gives none
  bool ends_run = false;                                    // the run ends when this role's Job ends
  std::vector<std::string> final_for_train, final_for_run;  // exit codes after which a retry is useless
  // Not yet evaluated; a null node if the template lacks the key.
  YamlNode environment, pod, job;
};

struct JobType {
  std::vector<RoleTemplate> roles;  // in the order in which their Jobs are created
  YamlNode parameters;              // map of names to defaults; null if there are no parameters
  YamlNode objects;                 // list of further objects, not yet evaluated; null if there are none
};

// Throws Error: not_found if there is no such template; usage if the template has mistakes, with their
// positions.
JobType load_job_type(const Templates& templates, const std::string& name);

}  // namespace mlk
