// How the server is started, found, stopped, and reported as lost. The test forks the server, and
// `up` starts a script in place of the server.
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/local/local.h"
#include "cli/local/node/pod_folder.h"
#include "cli/local/state/file_lock.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/json.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/cluster_up");

namespace mlk::local {
namespace {

namespace cluster_up {

using samples::Folder;
using samples::json;
using samples::write_text;

bool comes_true(const std::function<bool()>& done) {
  for (int i = 0; i < 6000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// A process that runs `body`. The destructor kills the process if it still runs.
class Forked {
 public:
  explicit Forked(const std::function<int()>& body) {
    std::cout.flush();  // otherwise the child would print the buffered text of this process again
    pid_ = ::fork();
    if (pid_ == 0) ::_exit(body());
  }
  ~Forked() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;
  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

struct Cluster {
  Folder folder;
  Paths paths{folder.path() / "mlk/local"};
  Cluster() { ::setenv("XDG_STATE_HOME", folder.path().c_str(), 1); }
  ~Cluster() { ::unsetenv("XDG_STATE_HOME"); }

  // The program that `up` starts. The program records its arguments and then runs `script`.
  std::filesystem::path program(const std::string& script) const {
    const std::filesystem::path file = folder.path() / "program";
    write_text(file, "#!/bin/sh\necho \"$# $1 $2\" >> \"" + calls().string() + "\"\n" + script + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }
  std::filesystem::path calls() const { return folder.path() / "calls"; }
  std::string called() const {
    return std::filesystem::exists(calls()) ? read_file(calls(), 1000) : std::string();
  }
  // The real server, with its output in a file.
  int serve_here() const {
    const int said = ::open((folder.path() / "said").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(said, 2);
    return serve("/nonexistent/mlk");
  }
  std::string said() const { return read_file(folder.path() / "said", 10000); }
  UpOptions options(const std::string& script) const {
    return {.program = program(script), .volumes = {}, .timeout = std::chrono::seconds(60)};
  }
};

template <class Call>
std::string up_error(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + " | " + error.what() + " | " + error.hint();
  }
  return "";
}

TEST_CASE("up() uses a running server again, and no server runs after down()") {
  const Cluster cluster;
  CHECK_FALSE(running());
  Forked server([&] { return cluster.serve_here(); });
  REQUIRE(comes_true([] { return running().has_value(); }));
  const Info info = *running();
  const auto address = read_address(cluster.paths);
  REQUIRE(address);
  CHECK(address->pid == server.pid());
  CHECK(info.pid == server.pid());
  const std::string url = "https://127.0.0.1:" + std::to_string(address->port);
  CHECK(info.server_url == url);
  CHECK(info.kubeconfig == cluster.paths.kubeconfig());
  CHECK(info.state == cluster.paths.root);
  CHECK_FALSE(lost());
  CHECK_FALSE(is_elsewhere());
  const json config = parse_json(read_file(cluster.paths.kubeconfig(), 100000), "");
  CHECK(config.at("/clusters/0/cluster/server"_json_pointer) == url);
  const json saved = parse_json(read_file(cluster.paths.root / "credentials.json", 100000), "");
  CHECK(config.at("/users/0/user/token"_json_pointer) == saved.at("token"));
  struct stat mode{};
  ::stat(cluster.paths.kubeconfig().c_str(), &mode);
  CHECK((mode.st_mode & 07777) == 0600);
  ::stat(cluster.paths.root.c_str(), &mode);
  CHECK((mode.st_mode & 07777) == 0700);

  write_address(cluster.paths, {server.pid() + 1, address->port});  // an earlier server had the same port
  CHECK_FALSE(running());
  write_address(cluster.paths, *address);

  const Info used = up(cluster.options("exit 1"));
  CHECK(used.pid == info.pid);
  CHECK(used.server_url == info.server_url);
  CHECK(cluster.called().empty());
  Forked second([&] { return cluster.serve_here(); });
  CHECK(second.wait() == 0);
  CHECK(cluster.said() == "listening on " + url + "\nthe local cluster is running already\n");

  const Stopped stopped = down();
  CHECK(stopped.server);
  CHECK(stopped.pods.empty());
  CHECK(stopped.left_over.empty());
  CHECK(stopped.elsewhere.empty());
  CHECK(server.wait() == 0);
  CHECK(cluster.said().ends_with("ended by signal 15\n"));
  CHECK_FALSE(running());
  CHECK_FALSE(lost());
  CHECK(read_address(cluster.paths)->pid == 0);
  CHECK(read_address(cluster.paths)->port == address->port);
  CHECK_FALSE(down().server);

  // The next server has the same port and the same keys, since clients still use them.
  Forked next([&] { return cluster.serve_here(); });
  REQUIRE(comes_true([] { return running().has_value(); }));
  CHECK(running()->server_url == url);
  CHECK(parse_json(read_file(cluster.paths.root / "credentials.json", 100000), "") == saved);
}

TEST_CASE("a server ends in good order after SIGINT or SIGHUP, and is reported as lost after SIGKILL") {
  for (const int number : {SIGINT, SIGHUP, SIGKILL}) {
    CAPTURE(number);
    const Cluster cluster;
    Forked server([&] { return cluster.serve_here(); });
    REQUIRE(comes_true([] { return running().has_value(); }));
    server.signal(number);
    CHECK(server.wait() == (number == SIGKILL ? 128 + SIGKILL : 0));
    CHECK(lost() == (number == SIGKILL));
    if (number != SIGKILL)
      CHECK(cluster.said().ends_with("ended by signal " + std::to_string(number) + "\n"));
    CHECK_FALSE(down().server);
  }
}

TEST_CASE("up() starts `PROGRAM local serve` once, and waits until the server answers") {
  const Cluster cluster;
  Forked server(
      [&] { return comes_true([&] { return !cluster.called().empty(); }) ? cluster.serve_here() : 1; });
  const Info info =
      up(cluster.options("echo started; while [ ! -e \"" + (cluster.folder.path() / "end").string() +
                         "\" ] && [ -d \"" + cluster.folder.path().string() + "\" ]; do sleep 0.05; done"));
  CHECK(info.pid == server.pid());
  CHECK(cluster.called() == "2 local serve\n");
  CHECK(comes_true([&] { return read_file(cluster.paths.log(), 1000) == "started\n"; }));
  write_text(cluster.folder.path() / "end", "");
}

TEST_CASE("up() waits for a server that is already starting, and does not start a second server") {
  const Cluster cluster;
  make_state_folder(cluster.paths.root);
  Forked server([&] {
    {
      const FileLock lock(cluster.paths.lock());
      write_text(cluster.folder.path() / "locked", "");
      comes_true([&] { return std::filesystem::exists(cluster.folder.path() / "go"); });
    }
    return 0;
  });
  REQUIRE(comes_true([&] { return std::filesystem::exists(cluster.folder.path() / "locked"); }));
  write_address(cluster.paths, {server.pid() + 1, 1});  // the address of an earlier server
  UpOptions options = cluster.options("exit 0");
  options.timeout = std::chrono::seconds(0);
  CHECK(up_error([&] { up(options); }) ==
        "1 | the local cluster did not come up in time | see " + cluster.paths.log().string());
  write_address(cluster.paths, {server.pid(), 1});  // no process listens on this port
  CHECK_FALSE(running());
  CHECK(cluster.called().empty());
  write_text(cluster.folder.path() / "go", "");
  options.timeout = std::chrono::seconds(60);
  CHECK(up_error([&] { up(options); }) ==
        "1 | the local cluster did not start | see " + cluster.paths.log().string());
}

TEST_CASE("up() has one error for a server that ends early, and another for a server that is too slow") {
  CHECK(UpOptions{}.timeout == std::chrono::seconds(20));
  const Cluster cluster;
  CHECK(up_error([&] { up(cluster.options("exit 1")); }) ==
        "1 | the local cluster did not start | see " + cluster.paths.log().string());
  CHECK(cluster.called() == "2 local serve\n");
  UpOptions slow =
      cluster.options("while [ -d \"" + cluster.folder.path().string() + "\" ]; do sleep 0.05; done");
  slow.timeout = std::chrono::seconds(0);
  CHECK(up_error([&] { up(slow); }) ==
        "1 | the local cluster did not come up in time | see " + cluster.paths.log().string());
  CHECK(up_error([&] { up({.program = "/nonexistent/mlk", .volumes = {}}); }) ==
        "1 | the local cluster did not start: cannot start mlk: its file is gone | see " +
            cluster.paths.log().string());
  CHECK(read_file(cluster.paths.log(), 1000).ends_with("cannot start mlk: its file is gone\n"));
  CHECK(up_error([&] { up(cluster.options("echo first >&2; echo 'no locks here' >&2; exit 1")); }) ==
        "1 | the local cluster did not start: no locks here | see " + cluster.paths.log().string());
  CHECK(up_error([&] { up(cluster.options("exit 1")); }) ==
        "1 | the local cluster did not start | see " + cluster.paths.log().string());
}

TEST_CASE("up() keeps the volume folders of earlier calls, and refuses a folder that does not exist") {
  const Cluster cluster;
  const std::filesystem::path one = cluster.folder.path() / "one", two = cluster.folder.path() / "two";
  std::filesystem::create_directory(one);
  std::filesystem::create_directory(two);
  const auto try_up = [&](const std::map<std::string, std::string>& volumes) {
    UpOptions options = cluster.options("exit 1");
    options.volumes = volumes;
    return up_error([&] { up(options); });
  };
  const auto given = [&] { return parse_json(read_file(cluster.paths.volumes(), 1000), ""); };
  try_up({});
  CHECK_FALSE(std::filesystem::exists(cluster.paths.volumes()));
  try_up({{"a", one.string()}, {"b", one.string() + "/../two"}});
  CHECK(given() == json{{"a", one.string()}, {"b", two.string()}});
  try_up({{"a", two.string()}, {"c", one.string()}});
  CHECK(given() == json{{"a", two.string()}, {"b", two.string()}, {"c", one.string()}});
  struct stat mode{};
  ::stat(cluster.paths.volumes().c_str(), &mode);
  CHECK((mode.st_mode & 07777) == 0600);
  write_text(cluster.folder.path() / "a file", "");
  for (const std::string name : {"none", "a file"}) {
    const std::string bad = (cluster.folder.path() / name).string();
    CHECK(try_up({{"d", bad}}) ==
          "2 | volume d: " + bad + " is no folder | mkdir " + (name == "none" ? bad : "'" + bad + "'"));
  }
  CHECK(given().size() == 3);
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(cluster.folder.path());
  try_up({{"e", "one"}});
  std::filesystem::current_path(here);
  CHECK(given().at("e") == one.string());
}

// A supervisor that holds the lock of its pod's folder until it is asked to stop.
int hold_until_told(const PodFolder& folder) {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const FileLock lock(folder.lock());
  int number = 0;
  ::sigwait(&signals, &number);
  return lock.held() ? 0 : 1;
}

TEST_CASE("down() waits until the server has ended, even if the disk is full") {
  for (const bool full : {false, true}) {
    CAPTURE(full);
    const Cluster cluster;
    make_state_folder(cluster.paths.root);
    Forked server([&] {
      sigset_t signals;
      ::sigemptyset(&signals);
      ::sigaddset(&signals, SIGTERM);
      ::sigprocmask(SIG_BLOCK, &signals, nullptr);
      {
        const FileLock lock(cluster.paths.lock());
        int number = 0;
        ::sigwait(&signals, &number);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        write_text(cluster.folder.path() / "left", "");
        if (full) {  // not even root can overwrite a folder in place of the file
          std::filesystem::remove(cluster.paths.server());
          std::filesystem::create_directory(cluster.paths.server());
        }
      }
      return 0;
    });
    REQUIRE(comes_true([&] { return FileLock::holder(cluster.paths.lock()).held; }));
    write_address(cluster.paths, {server.pid(), 4711});
    CHECK(down().server);
    CHECK(std::filesystem::exists(cluster.folder.path() / "left"));
    CHECK_FALSE(FileLock::holder(cluster.paths.lock()).held);
    CHECK_FALSE(lost());
    const auto address = read_address(cluster.paths);
    CHECK(address.has_value() == !full);
    if (address) CHECK(address->pid == 0);
    if (address) CHECK(address->port == 4711);
  }
}

TEST_CASE("down() gives a pod at most the grace period that the caller allows, and names the stopped pods") {
  struct Case {
    std::optional<long> own, asked;
    long given;
  };
  for (const Case& at :
       {Case{5, 3, 3}, Case{5, 9, 5}, Case{100, std::nullopt, 30}, Case{std::nullopt, 7, 7}}) {
    CAPTURE(at.given);
    const Cluster cluster;
    const PodFolder pod(cluster.paths.pods() / "uid-1");
    std::filesystem::create_directories(pod.path());
    if (at.own) pod.write(Start{"lab/p", *at.own, {"true"}, {}, "/"});
    Forked supervisor([&] { return hold_until_told(pod); });
    REQUIRE(comes_true([&] { return pod.supervisor().held; }));
    const Stopped stopped = at.asked ? down(std::chrono::seconds(*at.asked)) : down();
    CHECK_FALSE(stopped.server);
    CHECK(stopped.pods == std::vector<std::string>{at.own ? "lab/p" : "uid-1"});
    CHECK(stopped.left_over.empty());
    CHECK(stopped.elsewhere.empty());
    REQUIRE(pod.stop());
    CHECK(pod.stop()->grace_seconds == at.given);
    CHECK(pod.stop()->reason == "shutdown");
    CHECK(supervisor.wait() == 0);
  }
}

TEST_CASE("down() does not list a pod as stopped if the pod had already ended or had never started") {
  const Cluster cluster;
  const PodFolder ended(cluster.paths.pods() / "ended"), empty(cluster.paths.pods() / "empty"),
      waiting(cluster.paths.pods() / "waiting");
  for (const PodFolder* pod : {&ended, &empty, &waiting}) std::filesystem::create_directories(pod->path());
  ended.write(Start{"lab/ended", 5, {"true"}, {}, "/"});
  ended.write(Exit{0, 0, "2026-11-21T12:00:09Z", "2026-11-21T12:00:05Z", "", ""});
  waiting.write(Start{"lab/waiting", 5, {"true"}, {}, "/"});
  const Stopped stopped = down(std::chrono::seconds(3));
  CHECK(stopped.pods.empty());
  CHECK(stopped.left_over.empty());
  CHECK(stopped.elsewhere.empty());
  CHECK_FALSE(ended.stop());
  CHECK_FALSE(empty.stop());
  // The supervisor of this pod may be about to lock the folder. It reads the request before it starts the
  // program.
  REQUIRE(waiting.stop());
  CHECK(waiting.stop()->grace_seconds == 3);
}

}  // namespace cluster_up

}  // namespace
}  // namespace mlk::local
