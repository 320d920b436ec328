// Starts, stops and finds the embedded cluster. The commands include this header and no other header of
// cli/local.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/local/node/supervisor.h"
#include "cli/local/state/state_folder.h"
#include "cli/util/error.h"

namespace mlk::local {

std::filesystem::path kubeconfig_path();

struct Info {
  pid_t pid = 0;
  std::string server_url;  // "https://127.0.0.1:PORT"
  std::filesystem::path kubeconfig;
  std::filesystem::path state;
};

// The server, if it is up and answers.
std::optional<Info> running();

// Every "code-DIGITS" and "python-DIGITS" in the text, each with 64 hexadecimal digits: the names of layers
// of code and of packages. Pure.
std::set<std::string> layers_named_in(std::string_view text);
// The cached layers that objects of the local cluster name, whether the cluster is up or not. The next
// attempt of a run needs these layers, and a command that reads the code of the run needs them, too. Throws
// Error{failure} if an object cannot be read.
std::set<std::string> layers_in_use();

// The number of GPUs that a server started on this machine can give to pods.
int gpu_count();

// Whether the server is a process of another container, or of another machine that shares the state folder.
// mlk can neither use nor end such a server from here.
bool is_elsewhere();
// The Error{failure} for a server that is elsewhere.
Error elsewhere_error();

// The folder of this machine that the pods of a namespace see as this volume. `volume`: as in an experiment
// file, such as {"pvc": "checkpoints"}. `name`: the name of the volume in the pod. Empty if the volume is not
// a folder of this machine.
std::filesystem::path volume_folder(const std::string& name_space, const std::string& name,
                                    const nlohmann::json& volume);

// Whether a server ran here and was killed or crashed, instead of being stopped.
bool lost();

// The file of this program, under whatever name it was started. Linux only. Throws Error{failure}.
std::filesystem::path own_program();

struct UpOptions {
  std::filesystem::path program;               // the program mlk; the server is `PROGRAM local serve`
  std::map<std::string, std::string> volumes;  // claim or volume -> folder; added to those of earlier calls
  std::chrono::seconds timeout{20};
};

// Starts the server in the background if none runs, and waits until it answers. Two callers may do this at
// the same time. Throws Error: usage for a volume that is not a folder, failure if the server does not start,
// takes too long to start or is elsewhere.
Info up(const UpOptions& options);

struct Stopped {
  bool server = false;
  std::vector<std::string> pods;       // "namespace/name", ended by this call
  std::vector<std::string> left_over;  // pods that still existed after the time limit
  std::vector<std::string> elsewhere;  // pods that run on another machine or in another container
};

// Stops the server and the pods. The objects are kept, so the Jobs restart their pods after the next up(). A
// pod gets its grace period, but at most `grace`. Works on a full disk too. Throws Error{failure} if the
// server is elsewhere.
Stopped down(std::chrono::seconds grace = std::chrono::seconds(30));

// Runs the server in this process. SIGTERM, SIGINT or SIGHUP ends the process with the exit code 0, so
// serve() does not return then. If another server runs already, reports this on stderr and returns 0. If the
// state folder cannot be locked, returns 1. `program`: the program mlk; a supervisor is `PROGRAM local
// supervise DIR`.
int serve(const std::filesystem::path& program);

}  // namespace mlk::local
