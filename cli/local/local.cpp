#include "cli/local/local.h"

#include <algorithm>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/local/pod_folder.h"
#include "cli/local/spawn.h"
#include "cli/local/state_folder.h"
#include "cli/util/error.h"
#include "cli/util/files.h"

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

void add_volumes(const Paths& paths, const std::map<std::string, std::string>& volumes) {
  if (volumes.empty()) return;
  json all = json::object();
  if (std::filesystem::exists(paths.volumes())) all = json::parse(read_file(paths.volumes(), 1 << 20));
  for (const auto& [claim, folder] : volumes) {
    std::error_code ignored;
    const std::filesystem::path absolute = std::filesystem::absolute(folder);
    if (!std::filesystem::is_directory(absolute, ignored)) {
      throw Error(ExitCode::usage, "volume " + claim + ": " + folder + " is no folder", "mkdir " + folder);
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

void stop_server(const Paths& paths, Stopped& stopped) {
  const pid_t server = FileLock::holder(paths.lock());
  if (server == 0) return;
  ::kill(server, SIGTERM);
  const auto gone = [&] { return FileLock::holder(paths.lock()) != server; };
  if (!wait_for(std::chrono::seconds(10), gone)) {
    ::kill(server, SIGKILL);
    wait_for(std::chrono::seconds(5), gone);
    if (const auto address = read_address(paths)) write_address(paths, {0, address->port});
  }
  stopped.server = true;
}

}  // namespace

void make_state_folder(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder.parent_path());
  ::mkdir(folder.c_str(), 0700);
  struct stat info{};
  // Not through a link: somebody else may have put it there.
  if (::lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    throw Error(ExitCode::failure, "cannot make the folder " + folder.string());
  }
  if (info.st_uid != ::geteuid()) {
    throw Error(ExitCode::failure, folder.string() + " belongs to another user",
                "set XDG_STATE_HOME to a folder of your own");
  }
  if ((info.st_mode & 0777) != 0700 && ::chmod(folder.c_str(), 0700) != 0) {
    throw Error(ExitCode::failure, "cannot protect " + folder.string());
  }
}

std::optional<Address> read_address(const Paths& paths) {
  if (!std::filesystem::exists(paths.server())) return std::nullopt;
  const json saved = json::parse(read_file(paths.server(), 1 << 16), nullptr, false);
  if (!saved.is_object()) return std::nullopt;
  return Address{saved.value("pid", 0), saved.value("port", 0)};
}

void write_address(const Paths& paths, const Address& address) {
  write_file_atomically(paths.server(), json{{"pid", address.pid}, {"port", address.port}}.dump(), 0600);
}

Paths default_paths() { return Paths(state_home() / "local"); }

std::filesystem::path kubeconfig_path() { return default_paths().kubeconfig(); }

std::optional<Info> running() {
  const Paths paths = default_paths();
  const pid_t holder = FileLock::holder(paths.lock());
  if (holder == 0) return std::nullopt;
  const auto address = read_address(paths);
  // An address of an earlier server, while this one is still starting.
  if (!address || address->pid != holder || !answers(address->port)) return std::nullopt;
  return Info{holder, "https://127.0.0.1:" + std::to_string(address->port), paths.kubeconfig(), paths.root};
}

bool lost() {
  const Paths paths = default_paths();
  const auto address = read_address(paths);
  return address && address->pid != 0 && FileLock::holder(paths.lock()) == 0;
}

Info up(const UpOptions& options) {
  const Paths paths = default_paths();
  make_state_folder(paths.root);
  add_volumes(paths, options.volumes);
  if (const auto info = running()) return *info;
  pid_t child = 0;
  if (FileLock::holder(paths.lock()) == 0)
    child = spawn_detached({options.program.string(), "local", "serve"}, paths.log());
  std::optional<Info> info;
  const bool good = wait_for(options.timeout, [&] {
    info = running();
    // One that ended at once found another that was starting, or could not start; then there is no holder
    // either.
    if (!info && child > 0 && ::waitpid(child, nullptr, WNOHANG) == child) child = 0;
    return info.has_value() || (child == 0 && FileLock::holder(paths.lock()) == 0);
  });
  if (info) return *info;
  throw Error(ExitCode::failure,
              good ? "the local cluster did not start" : "the local cluster did not come up in time",
              "see " + paths.log().string());
}

Stopped down(std::chrono::seconds grace) {
  const Paths paths = default_paths();
  Stopped stopped;
  stop_server(paths, stopped);
  if (!std::filesystem::is_directory(paths.pods())) return stopped;
  std::vector<std::pair<PodFolder, std::string>> pods;
  long longest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(paths.pods())) {
    const PodFolder folder(entry.path());
    const auto start = folder.start();
    if (!start || folder.exit()) continue;
    const long patience = std::min<long>(grace.count(), start->grace_seconds);
    // Before the look at the lock: a supervisor that takes it only now reads this before it starts anything.
    folder.write(Stop{patience, "shutdown"});
    const pid_t supervisor = folder.supervisor();
    if (supervisor == 0) continue;
    longest = std::max(longest, patience);
    ::kill(supervisor, SIGTERM);
    pods.emplace_back(folder, start->pod);
  }
  const auto all_gone = [&] {
    return std::all_of(pods.begin(), pods.end(), [](const auto& pod) { return pod.first.supervisor() == 0; });
  };
  wait_for(std::chrono::seconds(longest + 10), all_gone);
  for (const auto& [folder, name] : pods)
    (folder.supervisor() == 0 ? stopped.pods : stopped.left_over).push_back(name);
  return stopped;
}

}  // namespace mlk::local
