#include "cli/local/local.h"

#include <algorithm>
#include <arpa/inet.h>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/local/node/gpus.h"
#include "cli/local/node/pod_folder.h"
#include "cli/local/node/spawn.h"
#include "cli/local/state/state_folder.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/json.h"
#include "cli/util/text.h"

namespace mlk::local {

using nlohmann::json;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds look_interval{20};

bool answers(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return false;
  struct sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool connected =
      ::connect(fd, reinterpret_cast<const struct sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return connected;
}

// Returns ": " and the last line that a server wrote to its log after the first `after` bytes. Empty if there
// is no such line.
std::string last_words(const std::filesystem::path& log, std::uintmax_t after) {
  constexpr std::size_t most_read = 4096;
  std::ifstream file(log, std::ios::binary);
  file.seekg(0, std::ios::end);
  const auto size = static_cast<std::uintmax_t>(std::max<std::streamoff>(file.tellg(), 0));
  if (size <= after) return {};
  std::string text(std::min<std::uintmax_t>(size - after, most_read), '\0');
  file.seekg(static_cast<std::streamoff>(size - text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  const std::string_view words = trim(text);
  const std::string_view line = words.substr(words.rfind('\n') + 1);
  return line.empty() ? std::string() : ": " + std::string(line);
}

void add_volumes(const Paths& paths, const std::map<std::string, std::string>& volumes) {
  if (volumes.empty()) return;
  json all = json::object();
  if (std::filesystem::exists(paths.volumes()))
    all = parse_json(read_file(paths.volumes(), 1 << 20), paths.volumes().string());
  for (const auto& [claim, folder] : volumes) {
    std::error_code ignored;
    const std::filesystem::path absolute = std::filesystem::absolute(folder);
    if (!std::filesystem::is_directory(absolute, ignored)) {
      throw Error(ExitCode::usage, "volume " + claim + ": " + folder + " is no folder",
                  "mkdir " + shell_word(folder));
    }
    all[claim] = absolute.lexically_normal().string();
  }
  write_file_atomically(paths.volumes(), all.dump(2), 0600);
}

template <class Done>
bool wait_for(std::chrono::milliseconds limit, const Done& done) {
  const auto end = steady_clock::now() + limit;
  while (!done()) {
    if (steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(look_interval);
  }
  return true;
}

// Records, for the next up(), that the server was stopped and has not crashed. If the disk is full, removes
// the file, since a missing file also means that the server was stopped.
void note_stopped(const Paths& paths) {
  const auto address = read_address(paths);
  try {
    if (address) write_address(paths, {0, address->port});
  } catch (const Error&) {
    std::error_code ignored;
    std::filesystem::remove(paths.server(), ignored);
  }
}

void stop_server(const Paths& paths, Stopped& stopped) {
  const Holder server = FileLock::holder(paths.lock());
  if (server.elsewhere()) throw elsewhere_error();
  if (!signal_holder(paths.lock(), SIGTERM)) return;
  const auto gone = [&] { return FileLock::holder(paths.lock()) != server; };
  if (!wait_for(std::chrono::seconds(10), gone)) {
    signal_holder(paths.lock(), SIGKILL);
    wait_for(std::chrono::seconds(5), gone);
  }
  note_stopped(paths);
  stopped.server = true;
}

}  // namespace

std::filesystem::path kubeconfig_path() { return default_paths().kubeconfig(); }

int gpu_count() { return static_cast<int>(gpus_of_machine().size()); }

std::optional<Info> running() {
  const Paths paths = default_paths();
  const Holder holder = FileLock::holder(paths.lock());
  if (!holder.here()) return std::nullopt;
  const auto address = read_address(paths);
  // While a server starts, the file still has the address and process id of an earlier server.
  if (!address || address->pid != holder.pid || !answers(address->port)) return std::nullopt;
  return Info{holder.pid, "https://127.0.0.1:" + std::to_string(address->port), paths.kubeconfig(),
              paths.root};
}

bool is_elsewhere() { return FileLock::holder(default_paths().lock()).elsewhere(); }

Error elsewhere_error() {
  return Error(ExitCode::failure,
               "the local cluster in " + default_paths().root.string() +
                   " runs on another machine or in another container",
               "use it there, or set XDG_STATE_HOME to a folder of this machine");
}

bool lost() {
  const Paths paths = default_paths();
  const auto address = read_address(paths);
  return address && address->pid != 0 && !FileLock::holder(paths.lock()).held;
}

Info up(const UpOptions& options) {
  const Paths paths = default_paths();
  make_state_folder(paths.root);
  add_volumes(paths, options.volumes);
  if (const auto info = running()) return *info;
  if (is_elsewhere()) throw elsewhere_error();
  std::error_code no_log;
  const std::uintmax_t log_size = std::filesystem::file_size(paths.log(), no_log);
  pid_t child = 0;
  if (!FileLock::holder(paths.lock()).held)
    child = spawn_detached({options.program.string(), "local", "serve"}, paths.log());
  std::optional<Info> info;
  const bool good = wait_for(options.timeout, [&] {
    info = running();
    // The child may end at once, because another server is starting or because the child cannot start. If the
    // child cannot start, no process holds the lock, and the wait ends.
    if (!info && child > 0 && ::waitpid(child, nullptr, WNOHANG) == child) child = 0;
    return info.has_value() || (child == 0 && !FileLock::holder(paths.lock()).held);
  });
  if (info) return *info;
  throw Error(ExitCode::failure,
              good ? "the local cluster did not start" + last_words(paths.log(), no_log ? 0 : log_size)
                   : "the local cluster did not come up in time",
              "see " + paths.log().string());
}

Stopped down(std::chrono::seconds grace) {
  const Paths paths = default_paths();
  Stopped stopped;
  stop_server(paths, stopped);
  if (!std::filesystem::is_directory(paths.pods())) return stopped;
  std::vector<std::pair<PodFolder, std::string>> pods;
  long longest = 0;
  visit_folder(paths.pods(), [&](const std::filesystem::directory_entry& entry) {
    const PodFolder folder(entry.path());
    const auto start = folder.start();
    if (folder.exit() || (!start && !folder.supervisor().held)) return;
    const std::string name = start ? start->pod : folder.uid();
    const long patience = start ? std::min<long>(grace.count(), start->grace_seconds) : grace.count();
    // Writes the request before it checks the lock. So if a supervisor gets the lock after the check, it
    // finds the request before it starts the program.
    const bool told = folder.ask_to_stop({patience, shutdown_reason});
    if (told) {
      longest = std::max(longest, patience);
      pods.emplace_back(folder, name);
    } else if (folder.supervisor().elsewhere()) {
      stopped.elsewhere.push_back(name);
    } else if (const auto started = folder.started()) {
      end_orphans(started->supervisor,
                  folder.mark());  // the supervisor was killed, and no server has recorded the end
    }
  });
  const auto all_gone = [&] {
    return std::all_of(pods.begin(), pods.end(),
                       [](const auto& pod) { return !pod.first.supervisor().held; });
  };
  wait_for(std::chrono::seconds(longest + 20), all_gone);
  for (const auto& [folder, name] : pods)
    (folder.supervisor().held ? stopped.left_over : stopped.pods).push_back(name);
  return stopped;
}

}  // namespace mlk::local
