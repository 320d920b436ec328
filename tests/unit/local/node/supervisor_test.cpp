// A pod's process: its start, its end, and its records.
#include <chrono>
#include <csignal>
#include <functional>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/local/local.h"
#include "cli/local/node/log_writer.h"
#include "cli/local/node/pod_folder.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/node/supervisor");

using namespace mlk::local;
using namespace mlk::local::samples;

namespace {

// Runs supervise() as its own process, as the server does, and waits for its end.
int supervise_apart(const std::filesystem::path& folder,
                    const std::function<void(pid_t)>& meanwhile = nullptr) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setsid();
    for (int fd = 3; fd < 256; ++fd) ::close(fd);  // as if the server had started the supervisor
    ::_exit(supervise(folder));
  }
  if (meanwhile) meanwhile(pid);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Start shell(const std::string& script) {
  return {"default/p", 5, {"sh", "-c", script}, {{"PATH", "/usr/bin:/bin"}, {"WORD", "hello"}}, "/nowhere"};
}

// Waits until `done` returns true, but only for a limited time.
bool until(const std::function<bool()>& done) {
  for (int i = 0; i < 1000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// A folder of a pod with something to run.
struct Pod {
  Folder folder;
  std::filesystem::path pods = folder.path() / "mlk/local/pods";  // as below $XDG_STATE_HOME
  PodFolder pod{pods / "p"};

  explicit Pod(const std::string& script) {
    std::filesystem::create_directories(pod.path());
    pod.write(shell(script));
  }
  std::string log() const { return read_log(pods, {}); }
};

bool is_alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  stat >> word >> word >> word;
  return !word.empty() && word != "Z";
}

// While this object lives, write_file_atomically() of process `writer` fails for the file: the disk is full.
class Unwritable {
 public:
  Unwritable(const std::filesystem::path& file, pid_t writer)
      : path_(file.string() + ".tmp-" + std::to_string(writer)) {
    std::filesystem::create_directory(path_);
  }
  ~Unwritable() { std::filesystem::remove(path_); }

 private:
  const std::filesystem::path path_;
};

constexpr char lingers[] = "trap 'exit 143' TERM; echo ready; while true; do sleep 0.05; done";

}  // namespace

TEST_CASE("the signals TERM, PIPE, INT and HUP end a process of the program, as they do outside of mlk") {
  Pod pod("for s in TERM PIPE INT HUP; do sh -c \"kill -$s \\$\\$; sleep 1\"; echo $s $?; done");
  ::signal(SIGPIPE, SIG_IGN);  // as in the server
  CHECK(supervise_apart(pod.pod.path()) == 0);
  ::signal(SIGPIPE, SIG_DFL);
  const std::string log = pod.log();
  for (const char* line : {"TERM 143", "PIPE 141", "INT 130", "HUP 129"})
    CHECK_MESSAGE(log.find(line) != std::string::npos, log);
}

TEST_CASE(
    "a supervisor runs the program with the recorded environment, and stores its output and exit code") {
  const Folder folder;
  const PodFolder pod(folder.path() / "pods" / "p");
  std::filesystem::create_directories(pod.path());
  pod.write(shell("echo $WORD; echo problem >&2; exit 3"));
  CHECK(supervise_apart(pod.path()) == 0);
  const auto exit = pod.exit();
  REQUIRE(exit.has_value());
  CHECK(exit->code == 3);
  CHECK(exit->signal == 0);
  const std::string log = read_log(folder.path() / "pods", {});
  CHECK(log.find("hello\n") != std::string::npos);
  CHECK(log.find("problem\n") != std::string::npos);
}

TEST_CASE("a program that does not exist ends with code 128, as in Kubernetes") {
  const Folder folder;
  const PodFolder pod(folder.path() / "pods" / "p");
  std::filesystem::create_directories(pod.path());
  Start start = shell("");
  start.argv = {"no-such-program"};
  pod.write(start);
  supervise_apart(pod.path());
  REQUIRE(pod.exit().has_value());
  CHECK(pod.exit()->code == 128);
  CHECK(pod.exit()->reason == "StartError");
  CHECK(pod.exit()->message.find("executable file not found in $PATH") != std::string::npos);
}

TEST_CASE("if a signal ends a program, the exit code is 128 plus the number of the signal") {
  const Folder folder;
  const PodFolder pod(folder.path() / "pods" / "p");
  std::filesystem::create_directories(pod.path());
  pod.write(shell("kill -9 $$"));
  supervise_apart(pod.path());
  CHECK(pod.exit()->code == 137);
  CHECK(pod.exit()->signal == 9);
}

TEST_CASE("to stop a pod, a supervisor sends SIGTERM to the program, and SIGKILL after the grace period") {
  for (const bool listens : {true, false}) {
    const Folder folder;
    const PodFolder pod(folder.path() / "pods" / "p");
    std::filesystem::create_directories(pod.path());
    pod.write(shell(std::string(listens ? "trap 'exit 143' TERM" : "trap '' TERM") +
                    "; echo ready; while true; do sleep 0.05; done"));
    supervise_apart(pod.path(), [&](pid_t supervisor) {
      CHECK(until([&] { return read_log(folder.path() / "pods", {}) == "ready\n"; }));
      CHECK(pod.supervisor() == Holder{true, supervisor});
      pod.write(Stop{listens ? 30 : 0, "shutdown"});
      ::kill(supervisor, SIGTERM);
    });
    CHECK(pod.exit()->code == (listens ? 143 : 137));
    CHECK(pod.exit()->reason == "shutdown");
    CHECK(!pod.supervisor().held);
  }
}

TEST_CASE("a supervisor ends the processes that its program leaves behind") {
  const Folder folder;
  const PodFolder pod(folder.path() / "pods" / "p");
  std::filesystem::create_directories(pod.path());
  pod.write(shell("sleep 1000 & echo $!"));
  supervise_apart(pod.path());
  const pid_t left = std::stoi(read_log(folder.path() / "pods", {}));
  CHECK(until([&] { return ::kill(left, 0) != 0; }));
}

TEST_CASE("a second supervisor of a pod does not start the program again") {
  const Folder folder;
  const PodFolder pod(folder.path() / "pods" / "p");
  std::filesystem::create_directories(pod.path());
  pod.write(shell("echo once; sleep 0.3"));
  supervise_apart(pod.path(), [&](pid_t) {
    CHECK(until([&] { return pod.supervisor().held; }));
    CHECK(supervise_apart(pod.path()) == 0);
  });
  CHECK(supervise_apart(pod.path()) == 0);
  CHECK(read_log(folder.path() / "pods", {}) == "once\n");
}

TEST_CASE("a pod that is stopped before its start is not started") {
  const Folder folder;
  const PodFolder pod(folder.path() / "pods" / "p");
  std::filesystem::create_directories(pod.path());
  pod.write(shell("echo ran"));
  pod.write(Stop{5, ""});
  supervise_apart(pod.path());
  CHECK(pod.exit()->code == 143);
  CHECK(read_log(folder.path() / "pods", {}).empty());
}

TEST_CASE("a supervisor also ends a process that left the session and ignores SIGTERM") {
  const Pod pod(
      "setsid sh -c 'trap \"\" TERM; echo $$; touch begun; sleep 1000; sleep 1000' & "
      "while [ ! -e begun ]; do sleep 0.01; done");
  supervise_apart(pod.pod.path());
  CHECK(!is_alive(std::stoi(pod.log())));
  CHECK(pod.pod.exit()->code == 0);
}

TEST_CASE("to stop a pod, a supervisor also ends a process that left the program's process group") {
  const Pod pod("setsid sleep 1000 & echo $!; trap '' TERM; while true; do sleep 0.05; done");
  supervise_apart(pod.pod.path(), [&](pid_t supervisor) {
    CHECK(until([&] { return !pod.log().empty(); }));
    pod.pod.write(Stop{0, ""});
    ::kill(supervisor, SIGTERM);
  });
  CHECK(!is_alive(std::stoi(pod.log())));
  CHECK(pod.pod.exit()->code == 137);
}

TEST_CASE("a pod continues after the end of one orphan process, but no orphan process outlives the pod") {
  const Pod pod("(setsid true &) ; (setsid sleep 1000 & echo $!) ; sleep 0.3; exit 5");
  supervise_apart(pod.pod.path());
  CHECK(!is_alive(std::stoi(pod.log())));
  CHECK(pod.pod.exit()->code == 5);
}

TEST_CASE("a program has stdin, stdout and stderr, and no other open file") {
  const Pod pod(
      "n=0; while [ $n -lt 64 ]; do if [ -e /proc/$$/fd/$n ]; then echo $n; fi; n=$((n + 1)); done");
  supervise_apart(pod.pod.path());
  CHECK(pod.log() == "0\n1\n2\n");
}

TEST_CASE("a supervisor records a shutdown if it gets SIGTERM while there is no stop.json") {
  const Pod pod(lingers);
  supervise_apart(pod.pod.path(), [&](pid_t supervisor) {
    CHECK(until([&] { return pod.log() == "ready\n"; }));
    ::kill(supervisor, SIGTERM);
    // A supervisor that ignores SIGTERM would wait for ever.
    if (!until([&] { return pod.pod.exit().has_value(); })) ::kill(supervisor, SIGKILL);
  });
  REQUIRE(pod.pod.exit().has_value());
  CHECK(pod.pod.exit()->code == 143);
  CHECK(pod.pod.exit()->reason == shutdown_reason);
}

TEST_CASE("down() stops a pod even if the disk is full") {
  const Pod pod(lingers);
  ::setenv("XDG_STATE_HOME", pod.folder.path().c_str(), 1);
  const Unwritable full(pod.pod.path() / "stop.json", ::getpid());
  supervise_apart(pod.pod.path(), [&](pid_t supervisor) {
    CHECK(until([&] { return pod.log() == "ready\n"; }));
    Stopped stopped;
    CHECK_NOTHROW(stopped = down(std::chrono::seconds(5)));
    CHECK(stopped.pods == std::vector<std::string>{"default/p"});
    if (stopped.pods.empty()) ::kill(supervisor, SIGKILL);
  });
  ::unsetenv("XDG_STATE_HOME");
}

TEST_CASE("a supervisor records the end of its program when a full disk has free space again") {
  const Pod pod("");
  Start start = shell("while [ ! -e go ]; do sleep 0.02; done; exit 7");
  start.working_folder = pod.pod.path();
  pod.pod.write(start);
  const int ended = supervise_apart(pod.pod.path(), [&](pid_t supervisor) {
    CHECK(until([&] { return pod.pod.started() && pod.pod.started()->group > 0; }));
    const Unwritable full(pod.pod.path() / "exit.json", supervisor);
    write_text(pod.pod.path() / "go", "");
    CHECK(until([&] { return !is_alive(pod.pod.started()->group); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // time for a first attempt
  });
  CHECK(ended == 0);
  REQUIRE(pod.pod.exit().has_value());
  CHECK(pod.pod.exit()->code == 7);
}

TEST_CASE("a log on a full disk loses whole lines, and says later how many") {
  const Folder folder;
  std::filesystem::create_directories(folder.path() / "p");
  struct rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_IGN);
  {
    LogFile file(folder.path() / "p/log", 1 << 20);
    LogStream out(file, "stdout");
    out.feed("first\n");
    struct rlimit full = before;
    full.rlim_cur = std::filesystem::file_size(folder.path() / "p/log") + 10;  // a part of a line
    ::setrlimit(RLIMIT_FSIZE, &full);
    out.feed("second\nthird\n");
    out.feed("fourth\n");
    ::setrlimit(RLIMIT_FSIZE, &before);
    out.feed("fifth\n");
    out.feed("sixth\n");
  }
  ::signal(SIGXFSZ, SIG_DFL);
  CHECK(read_log(folder.path(), {}) ==
        "first\nmlk: 3 lines are missing here: they could not be written\nfifth\nsixth\n");
}

TEST_CASE("the log shows a progress bar while its program still runs") {
  Pod pod("printf '\\r 10%%'; sleep 0.1; printf '\\r 20%%'; sleep 60");
  supervise_apart(pod.pod.path(), [&](pid_t supervisor) {
    CHECK(until([&] { return pod.log() == "\r 10%\r 20%\n"; }));
    ::kill(supervisor, SIGTERM);
  });
}
