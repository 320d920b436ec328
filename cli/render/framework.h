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
  std::map<std::string, std::string> role_names;  // where the framework calls a role otherwise
  std::set<std::string> outside;                  // roles that are not in cluster_text
  // Not yet evaluated; null if the template has none. The pod's is merged into every role.
  YamlNode environment, pod, job, objects;
  YamlNode launch;             // words before those of a program that `elastic` or `processes` asks to launch
  bool always_launch = false;  // and before those of every other program
  bool key = false;            // the pods have the key of the run
  std::string helper;          // a program of mlk's own that they have too, of helper.h; empty: none
};

// "" and "none" are no framework. Throws Error: not_found if there is no such template, usage with positions
// for mistakes in it.
Framework load_framework(const Templates& templates, const std::string& name);

// Annotation of pods that learn this port from their variables alone, and may listen on it at all addresses.
// The embedded cluster, whose pods share a machine, then gives each another one (cli/local/node/kubelet.cpp).
inline constexpr char port_annotation[] = "mlk.dev/port-by-variables";

// The values of ${framework...} in templates: port, of every pod; cluster_text, a JSON map from the names of
// the roles to the addresses of their pods; and role, the name of `role`, "" outside of a role. Null without
// a framework.
// `addresses`: host:port of all pods of `role`, with commas between them.
nlohmann::json framework_scope(const Framework& framework, const std::string& run,
                               const std::vector<RoleInRun>& roles, const std::string& role);

// Whether a launcher of the framework starts the experiment's program in pods of this size.
bool is_launched(const Experiment& experiment, const Framework& framework, const Role& size);

// The words that a pod of this size executes: those of the program, behind the launcher's if it is launched.
// Throws Error{usage} if it asks for a launcher and the framework has none.
std::vector<std::string> launched(const Experiment& experiment, const Framework& framework, const Role& size,
                                  const nlohmann::json& scope);

}  // namespace mlk
