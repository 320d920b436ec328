// The embedded cluster as the commands see it: start it, stop it, find it. The only header of cli/local that
// they include.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
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

// The server, when it is up and answers.
std::optional<Info> running();

// The server is a process of another machine, which shares the state folder, or of another container. It
// cannot be used from here, nor ended.
bool is_elsewhere();
// What to say of it. Error{failure}.
Error elsewhere_error();

// The folder on this machine that a volume of an experiment file, such as {"pvc": "checkpoints"}, means to
// the pods of a namespace. `name`: of the pod's volume. Empty when it is none of this machine.
std::filesystem::path volume_folder(const std::string& name_space, const std::string& name,
                                    const nlohmann::json& volume);

// A server ran here and is gone, and nobody stopped it: it was killed, or crashed.
bool lost();

// The file of this program, whatever it was started as. Linux only. Throws Error{failure}.
std::filesystem::path own_program();

struct UpOptions {
  std::filesystem::path program;               // of mlk itself: the server is `PROGRAM local serve`
  std::map<std::string, std::string> volumes;  // claim -> folder; added to those of earlier calls
  std::chrono::seconds timeout{20};
};

// Starts the server in the background when none runs, and waits until it answers. Safe when two start at
// once. Throws Error: usage for a volume that is no folder, failure when the server does not come up in time
// or is elsewhere.
Info up(const UpOptions& options);

struct Stopped {
  bool server = false;
  std::vector<std::string> pods;       // "namespace/name", stopped with their grace
  std::vector<std::string> left_over;  // pods that were still there after the time limit
  std::vector<std::string> elsewhere;  // pods that run on another machine or in another container
};

// Stops server and pods. Objects stay: the next up() goes on with them, what ran is restarted by its Job.
// A pod gets the time its grace period gives it, but at most `grace`. On a full disk they end all the same.
// Throws Error{failure} when the server is elsewhere.
Stopped down(std::chrono::seconds grace = std::chrono::seconds(30));

struct ServeOptions {
  std::filesystem::path program;  // of mlk itself: a supervisor is `PROGRAM local supervise DIR`
};

// The server process itself; returns its exit code when SIGTERM or SIGINT came. When another server runs
// already it says so on stderr and returns 0.
int serve(const ServeOptions& options);

}  // namespace mlk::local
