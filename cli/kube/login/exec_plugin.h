// Credential plugins of kubeconfigs (`exec:`): the form of an entry, the input of the program, and the
// meaning of its answer, by the API client.authentication.k8s.io. Everything here is pure; exec_call.h runs
// the program.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/kube/login/credential.h"
#include "cli/util/error.h"
#include "cli/util/process.h"

namespace mlk::kube {

struct Config;
struct KubeconfigEntry;

enum class InteractiveMode { never, if_available, always };

// The part `exec` of a user entry, checked.
struct ExecPlugin {
  std::string api_version;  // client.authentication.k8s.io/v1 or v1beta1
  std::string command;      // a path, or a name to look up in PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  // each name once; values may be secret
  InteractiveMode mode = InteractiveMode::if_available;
  std::string install_hint;
  bool provide_cluster_info = false;
  std::string cluster_extension;  // JSON of the cluster's extension for plugins; empty: none
};

// Reads and checks `exec` of a user entry. If `command` is a relative path with a slash, it begins at the
// folder of the entry's file. `here` names the entry in errors. Throws Error{usage}.
ExecPlugin read_exec_plugin(const nlohmann::json& exec, const KubeconfigEntry& user, const std::string& here);

// Whether the program may interact with the user. Throws Error{cluster} if the program has to
// interact and there is no terminal.
bool is_interactive(const ExecPlugin& plugin, bool stdin_is_terminal);

// The value of KUBERNETES_EXEC_INFO.
std::string exec_info(const ExecPlugin& plugin, const Config& config, bool interactive);

// Parses the output of the program. Throws Error{cluster}, which contains no part of the output except a
// wrong apiVersion.
Credential parse_exec_credential(std::string_view output, const ExecPlugin& plugin);

// The error for a failed run of the program. Contains the end of its stderr, without secrets. Pure.
Error exec_failure(const ExecPlugin& plugin, const ProcessResult& result, std::chrono::seconds patience);
// The error for a program that does not exist.
Error exec_missing(const ExecPlugin& plugin, const std::string& why);

// The program's text in a form that mlk may show: printable, and without the values of `env` and the secrets
// in `output`. A text of fewer than four characters does not count as a secret.
std::string without_secrets(const std::string& text, const ExecPlugin& plugin, const std::string& output);

}  // namespace mlk::kube
