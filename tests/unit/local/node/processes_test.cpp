// Which processes mlk signals, which processes it never signals, and state files that mlk has not written.
#include <csignal>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/local/local.h"
#include "cli/local/node/kubelet.h"
#include "cli/local/node/pod_folder.h"
#include "cli/util/error.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/node/processes");

using namespace mlk::local;
using namespace mlk::local::samples;

namespace {

// A process that leads its own session and answers each byte with the same byte. The destructor ends the
// process and its children.
class Session {
 public:
  Session() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setsid();
      ::close(ends[0]);
      const ProcessId id = ProcessId::of_this_process();
      [[maybe_unused]] const auto sent = ::write(ends[1], &id.start, sizeof id.start);
      for (char byte = 0; ::read(ends[1], &byte, 1) == 1 && ::write(ends[1], &byte, 1) == 1;) {
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    connection_ = ends[0];
    id_ = ProcessId::of_this_process();
    id_.pid = pid_;
    REQUIRE(::read(connection_, &id_.start, sizeof id_.start) == sizeof id_.start);
  }
  ~Session() {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(connection_);
  }
  const ProcessId& id() const { return id_; }
  // False if the process was killed. After SIGKILL a process runs no further instruction, so it never
  // answers, and the system closes its end of the connection.
  bool is_alive() const {
    char byte = 'x';
    return ::send(connection_, &byte, 1, MSG_NOSIGNAL) == 1 && ::read(connection_, &byte, 1) == 1;
  }

 private:
  pid_t pid_ = -1;
  int connection_ = -1;
  ProcessId id_;
};

// Sets $XDG_STATE_HOME to a folder with the folder of a pod.
struct State {
  Folder folder;
  Paths paths{folder.path() / "mlk/local"};
  PodFolder pod{paths.pods() / "p"};
  State() {
    std::filesystem::create_directories(pod.path());
    std::filesystem::permissions(paths.root, std::filesystem::perms::owner_all);
    ::setenv("XDG_STATE_HOME", folder.path().c_str(), 1);
  }
  ~State() { ::unsetenv("XDG_STATE_HOME"); }
};

#ifdef F_OFD_SETLK
// A lock without a process. The system reports the holder -1, as for a lock that another machine holds.
class LockOfNobody {
 public:
  explicit LockOfNobody(const std::filesystem::path& file)
      : fd_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    struct flock whole{};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    REQUIRE(::fcntl(fd_, F_OFD_SETLK, &whole) == 0);
  }
  ~LockOfNobody() { ::close(fd_); }

 private:
  const int fd_;
};
#endif

}  // namespace

#ifdef F_OFD_SETLK
TEST_CASE("a lock with an unknown holder counts as held elsewhere, and its holder gets no signal") {
  const State state;
  const LockOfNobody lock(state.pod.lock());
  const Holder holder = state.pod.supervisor();
  CHECK(holder.elsewhere());
  CHECK(holder.pid == 0);
  CHECK(!signal_holder(state.pod.lock(), SIGTERM));
  state.pod.write(Start{"default/p", 1, {"true"}, {}, "/"});
  const Stopped stopped = down(std::chrono::seconds(1));
  CHECK(stopped.elsewhere == std::vector<std::string>{"default/p"});
  CHECK(stopped.pods.empty());
}

TEST_CASE("mlk neither uses nor stops a server that runs on another machine or in another container") {
  const State state;
  const LockOfNobody lock(state.paths.lock());
  write_address(state.paths, {::getpid(), 1});
  CHECK(is_elsewhere());
  CHECK(!running());
  CHECK(!lost());
  CHECK_THROWS_AS(down(), mlk::Error);
  CHECK_THROWS_AS(up({.program = "/nonexistent", .volumes = {}}), mlk::Error);
}
#endif

TEST_CASE("end_orphans() does not end the session of another process with the same process id") {
  const auto survives = [](const auto& change) {
    const Session session;
    ProcessId supervisor = session.id();
    change(supervisor);
    end_orphans(supervisor, "NO_SUCH_MARK=1");
    return session.is_alive();
  };
  CHECK(!survives([](ProcessId&) {}));
  CHECK(survives([](ProcessId& id) { id.start += 1; }));        // the number now belongs to another process
  CHECK(survives([](ProcessId& id) { id.boot = "earlier"; }));  // another start of the machine
  CHECK(survives([](ProcessId& id) { id = {}; }));
  CHECK(survives([](ProcessId& id) { id.pid = 1; }));
  CHECK(survives([](ProcessId& id) { id.pid = -1; }));
}

TEST_CASE("down() finds a process by the mark in its environment, even if the process has left its session") {
  const State state;
  Start start{"default/p", 5, {"sh", "-c", "setsid sleep 1000 & echo $!; sleep 1000"}, {}, "/"};
  start.env = {{"PATH", "/usr/bin:/bin"}};
  state.pod.write(start);
  const pid_t supervisor = ::fork();
  if (supervisor == 0) {
    ::setsid();
    ::_exit(supervise(state.pod.path()));
  }
  std::string log;
  for (int i = 0; i < 1000 && log.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    log = read_log(state.paths.pods(), {});
  }
  REQUIRE(!log.empty());
  const pid_t left = std::stoi(log);
  ::kill(supervisor, SIGKILL);
  ::waitpid(supervisor, nullptr, 0);
  CHECK(::kill(left, 0) == 0);
  // No server has noticed the loss, so down() has to end the remaining processes.
  down(std::chrono::seconds(1));
  bool gone = false;
  for (int i = 0; i < 1000 && !gone; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::ifstream stat("/proc/" + std::to_string(left) + "/stat");
    std::string word;
    stat >> word >> word >> word;
    gone = word.empty() || word == "Z";
  }
  CHECK(gone);
}

TEST_CASE("running(), lost() and down() accept state files that mlk has not written") {
  const std::string deep(100000, '[');
  const std::vector<std::string> texts = {
      "",
      "null",
      "[]",
      "{}",
      deep,
      R"({"a":)" + deep,
      std::string(100000, 'x'),
      R"({"pid": "1", "port": [], "grace_seconds": "x", "reason": 5})",
      R"({"pid": -1, "port": -1, "grace_seconds": -5, "reason": null})",
      R"({"pid": 1e300, "port": 99999999999999999999, "grace_seconds": 1e300})",
      R"({"at": 5, "group": "x", "supervisor": {"pid": {}, "start": [], "boot": 1}})",
      R"({"at": "x", "group": -1, "supervisor": {"pid": -1, "start": -1, "boot": ""}})",
      R"({"pod": "\u001b[2J", "grace_seconds": 1, "argv": 5, "env": {}, "working_folder": 0})",
      R"({"code": "0", "signal": {}, "at": 0, "started_at": 0, "reason": 0, "message": 0})"};
  for (const std::string& text : texts) {
    for (const char* name :
         {"process.json", "stop.json", "started.json", "exit.json", "lock", "../../server.json"}) {
      const State state;
      CAPTURE(text.substr(0, 80));
      CAPTURE(name);
      state.pod.write(Start{"default/p", 1, {"true"}, {}, "/"});
      state.pod.write(Started{"2026-11-21T12:00:00Z", 0, {}});
      write_text(state.pod.path() / name, text);
      CHECK_NOTHROW(running());
      CHECK_NOTHROW(lost());
      CHECK_NOTHROW(down(std::chrono::seconds(1)));
    }
  }
}

TEST_CASE(
    "running(), lost() and down() throw only mlk::Error if there is a folder in place of a state file") {
  for (const char* name : {"pods/p/process.json", "pods/p/stop.json", "pods/p/exit.json", "pods/p/lock",
                           "lock", "server.json", "pods/a-file"}) {
    const State state;
    CAPTURE(name);
    state.pod.write(Start{"default/p", 1, {"true"}, {}, "/"});
    std::filesystem::remove(state.paths.root / name);
    if (std::string(name) == "pods/a-file") {
      write_text(state.paths.root / name, "x");
    } else {
      std::filesystem::create_directories(state.paths.root / name);
    }
    const auto only_error = [](const auto& call) {
      try {
        call();
      } catch (const mlk::Error&) {
        return true;
      }
      return true;
    };
    CHECK_NOTHROW(only_error([] { running(); }));
    CHECK_NOTHROW(only_error([] { lost(); }));
    CHECK_NOTHROW(only_error([] { down(std::chrono::seconds(1)); }));
  }
}

TEST_CASE("the kubelet reports a supervisor that cannot be started, and can still delete its pod") {
  const Folder folder;
  const Paths paths(folder.path());
  Store store(paths.objects());
  PodLogs logs(paths.pods());
  store.create("pods",
               {{"apiVersion", "v1"},
                {"kind", "Pod"},
                {"metadata", {{"name", "p"}, {"namespace", "default"}, {"uid", "p"}}},
                {"spec", {{"containers", {{{"name", "main"}, {"image", "i"}, {"command", {"true"}}}}}}}});
  Kubelet kubelet(store, logs, paths, "/nonexistent/mlk");
  mlk::Time now = noon;
  const auto waiting = [&] {
    return store.get("pods", "default", "p")
        ->value("/status/containerStatuses/0/state/waiting/message"_json_pointer, "");
  };
  for (int i = 0; i < 1000 && waiting().empty(); ++i) {
    kubelet.step(now, true);
    now += std::chrono::seconds(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(waiting() ==
        "the supervisor of the pod did not start: exit code 127: cannot start mlk: its file is gone");
  bool told = false;
  for (const Object& event : store.list("events")) told = told || event->at("type") == "Warning";
  CHECK(told);
  // A pod that never started can still be deleted.
  store.modify("pods", "default", "p", [](json& pod) {
    pod["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z";
    pod["metadata"]["deletionGracePeriodSeconds"] = 30;
  });
  for (int i = 0; i < 1000 && store.find("pods", "default", "p"); ++i) {
    kubelet.step(now, true);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(!store.find("pods", "default", "p"));
}
