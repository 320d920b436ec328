// A framework: how the programs of a run find each other, as a template in templates/frameworks/ describes
// it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/yaml.h"
#include "cli/render/pod.h"
#include "cli/render/templates.h"

namespace mlk {

struct Framework {
  std::string name;                               // empty: there is none
  std::map<std::string, std::string> role_names;  // roles with another name in the framework
  std::set<std::string> outside;                  // roles that are not in cluster_text
  // Not yet evaluated; null if the template has none. `pod` is merged into every role.
  YamlNode environment, pod, job, objects;
  YamlNode launch;             // words before the program, if `elastic` or `processes` asks for a launcher
  bool always_launch = false;  // the launcher starts every program
  bool key = false;            // the pods have the key of the run
  std::string helper;          // the pods also have this program of mlk (helper.h); empty: none
};

// The names "" and "none" mean no framework. Throws Error: not_found if there is no such template, usage with
// positions for mistakes in it.
Framework load_framework(const Templates& templates, const std::string& name);

// Annotation of pods that read their port only from variables, and may listen on it at all addresses. In the
// embedded cluster pods share a machine, so each such pod gets another port (cli/local/node/kubelet.cpp).
inline constexpr char port_annotation[] = "mlk.dev/port-by-variables";

// The values of ${framework...} in templates: port, which is the same in every pod; cluster_text, a JSON map
// from the names of the roles to the addresses of their pods; and role, the name of `role`, "" outside of a
// role. Returns null without a framework. `addresses`: host:port of all pods of `role`, with commas between
// them.
nlohmann::json framework_scope(const Framework& framework, const std::string& run,
                               const std::vector<RoleInRun>& roles, const std::string& role);

// Whether a launcher of the framework starts the experiment's program in pods of this size.
bool is_launched(const Experiment& experiment, const Framework& framework, const Role& size);

// The words that a pod of this size executes: the words of the program, after the words of the launcher if a
// launcher starts the program. Throws Error{usage} if the program asks for a launcher and the framework has
// none.
std::vector<std::string> launched(const Experiment& experiment, const Framework& framework, const Role& size,
                                  const nlohmann::json& scope);

}  // namespace mlk
