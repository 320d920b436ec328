// A job type: the roles of a run, as a template in templates/jobs/ describes them.
#pragma once

#include <string>
#include <vector>

#include "cli/experiment/yaml.h"
#include "cli/render/templates.h"

namespace mlk {

struct RoleTemplate {
  std::string name;
  int count = 1;                                            // the default for the experiment
  bool ends_run = false;                                    // the run ends when this role's Job ends
  std::vector<std::string> final_for_train, final_for_run;  // codes and ranges that make a retry useless
  // Not yet evaluated; null if the template has none.
  YamlNode environment, pod, job;
};

struct JobType {
  std::vector<RoleTemplate> roles;  // in the order of their Jobs
  YamlNode parameters;              // map of names to defaults; null if there are none
  YamlNode objects;                 // list of further objects, not yet evaluated; null if there are none
};

// Throws Error: not_found if there is no such template, usage with positions for mistakes in it.
JobType load_job_type(const Templates& templates, const std::string& name);

}  // namespace mlk
