// A framework: how the programs of a run find each other. A template in templates/frameworks/ describes it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/render/pod.h"
#include "cli/render/templates.h"
#include "cli/yaml/yaml.h"

namespace mlk {

struct Framework {
  std::string name;                               // empty: there is none
  std::map<std::string, std::string> role_names;  // role -> the framework's own name for it
  std::set<std::string> outside;                  // roles that are not in cluster_text
  // Not yet evaluated; a null node if the template lacks the key. `pod` and `job` are merged into every role.
  YamlNode environment, pod, job, objects;
  YamlNode launch;             // words of the launcher; the words of the program follow
  bool always_launch = false;  // the launcher also starts a program that asks for no launcher
  bool key = false;            // whether the pods get the key of the run
  bool helper = false;         // whether the pods get mpi_helper (helper.h) too
};

// The names "" and "none" mean no framework. Throws Error: not_found if there is no such template; usage if
// the template has mistakes, with their positions.
Framework load_framework(const Templates& templates, const std::string& name);

// The annotation of pods that read their port only from variables. They may listen on this port at every
// address of their machine. In the embedded cluster all pods share one machine, so each pod with this
// annotation gets another port (cli/local/node/kubelet.cpp).
inline constexpr char port_annotation[] = "mlk.dev/port-by-variables";

// Returns the values of ${framework...} in templates, or null without a framework:
// - port: the same in every pod.
// - addresses: host:port of all pods of `role`, separated by commas.
// - cluster_text: a JSON map from the names of the roles to the addresses of their pods.
// - role: the framework's name for `role`; "" outside of a role.
nlohmann::json framework_scope(const Framework& framework, const std::string& run,
                               const std::vector<RoleInRun>& roles, const std::string& role);

// Whether a launcher of the framework starts the experiment's program in pods of this size.
bool is_launched(const Experiment& experiment, const Framework& framework, const Role& size);

// The words that a pod of this size executes: the words of the program. If a launcher starts the program, the
// words of the launcher come first. Throws Error{usage} if the program needs a launcher and the framework has
// no launcher.
std::vector<std::string> launched(const Experiment& experiment, const Framework& framework, const Role& size,
                                  const nlohmann::json& scope);

}  // namespace mlk
