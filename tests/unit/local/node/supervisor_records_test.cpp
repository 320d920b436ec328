// The records and notices of a supervisor, and the environment of its program.
#include <algorithm>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/local/local.h"
#include "cli/local/node/pod_folder.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/node/supervisor_records");

namespace mlk::local {
namespace {

namespace supervisor_records {

// A pod's folder, and the fifo by which a server would get notices of the pod.
struct Supervised {
  samples::Folder folder;
  std::filesystem::path fifo = folder.path() / "notices";
  PodFolder pod{folder.path() / "pods" / "p"};
  int fd = -1;

  Supervised() {
    std::filesystem::create_directories(pod.path());
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    fd = ::open(fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(fd >= 0);
  }
  ~Supervised() { ::close(fd); }
  Supervised(const Supervised&) = delete;
  Supervised& operator=(const Supervised&) = delete;

  // The exit code of the supervisor.
  int run() const {
    std::cout.flush();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::setsid();
      ::_exit(supervise(pod.path()));
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int run(const std::vector<std::string>& argv, const std::string& working_folder = "/nowhere") const {
    pod.write(Start{"default/p", 5, argv, {{"PATH", "/usr/bin:/bin"}, {"WORD", "a=b c"}}, working_folder});
    return run();
  }
  std::string notices() const {
    char text[1000];
    const ssize_t count = ::read(fd, text, sizeof text);
    return count > 0 ? std::string(text, static_cast<std::size_t>(count)) : "";
  }
  std::string log() const { return samples::read_log(folder.path() / "pods", {}); }
};

bool is_now(const std::string& text) {
  const auto time = parse_time(text);
  const auto now = std::chrono::system_clock::now();
  return time && *time <= now && *time > now - std::chrono::minutes(10);
}

TEST_CASE("a supervisor records the start and the end of its program, and sends a notice for each") {
  const Supervised p;
  CHECK(p.run({"sh", "-c", "exit 3"}) == 0);
  CHECK(p.notices() == "p\np\n");
  const auto started = p.pod.started();
  REQUIRE(started);
  CHECK(is_now(started->at));
  CHECK(started->group > 0);
  CHECK(started->supervisor.pid > 0);
  CHECK(started->supervisor.pid != started->group);
  CHECK(started->supervisor.boot == ProcessId::of_this_process().boot);
  const auto exit = p.pod.exit();
  REQUIRE(exit);
  CHECK(exit->code == 3);
  CHECK(exit->signal == 0);
  CHECK(exit->reason.empty());
  CHECK(exit->message.empty());
  CHECK(exit->started_at == started->at);
  CHECK(is_now(exit->at));
}

TEST_CASE("a supervisor records the end of its program, even if no server runs") {
  Supervised p;
  ::close(p.fd);
  CHECK(p.run({"true"}) == 0);
  p.fd = ::open(p.fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  CHECK(p.notices().empty());
  CHECK(p.pod.exit()->code == 0);
}

TEST_CASE("a supervisor records the reason if its program cannot be started") {
  const Supervised missing;
  CHECK(missing.run({"no-such-program"}) == 0);
  CHECK(missing.notices() == "p\n");
  const auto exit = missing.pod.exit();
  REQUIRE(exit);
  CHECK(exit->code == 128);
  CHECK(exit->signal == 0);
  CHECK(exit->reason == "StartError");
  CHECK(exit->message == "exec: \"no-such-program\": executable file not found in $PATH");
  CHECK(exit->started_at == missing.pod.started()->at);
  CHECK(is_now(exit->at));
  CHECK(missing.pod.started()->group == 0);
  const Supervised folder;
  folder.run({"/tmp"});
  CHECK(folder.pod.exit()->message == std::string("exec: \"/tmp\": ") + std::strerror(EACCES));
}

TEST_CASE(
    "a program gets the recorded variables and starts in the recorded folder, or else in the pod's folder") {
  const Supervised p;
  p.run({"sh", "-c", "env | sort | grep -v '^PWD\\|^_\\|^SHLVL\\|^OLDPWD'; pwd -P; cat; echo $#", "x",
         "one two", ""});
  CHECK(p.log() == "MLK_LOCAL_POD=p\nPATH=/usr/bin:/bin\nWORD=a=b c\n" +
                       std::filesystem::canonical(p.pod.path()).string() + "\n2\n");
  const Supervised other;
  other.run({"sh", "-c", "pwd -P"}, "/usr");
  CHECK(other.log() == "/usr\n");
}

TEST_CASE("the log has all the output of a program that ends at once, even if the last line has no newline") {
  const Supervised p;
  p.run({"sh", "-c", "printf out; printf err >&2"});
  std::ifstream log(p.pod.path() / "log");
  std::vector<std::string> entries;
  for (std::string line; std::getline(log, line);) entries.push_back(line.substr(line.find(' ') + 1));
  CHECK(entries == std::vector<std::string>{"stdout F out", "stderr F err"});
}

TEST_CASE("a program can write more to stdout or stderr than a pipe holds") {
  for (const char* stream : {"1", "2"}) {
    CAPTURE(stream);
    const Supervised p;
    p.run({"sh", "-c", std::string("head -c 300000 /dev/zero | tr '\\0' x >&") + stream + "; echo end"});
    CHECK(p.pod.exit()->code == 0);
    const std::string log = p.log();
    CHECK(std::ranges::count(log, 'x') == 300000);
    CHECK(log.find("end\n") != std::string::npos);
    CHECK(p.notices().starts_with("p\np\n"));
  }
}

TEST_CASE("a supervisor starts no program if the pod was stopped, was started before, or has no program") {
  const Supervised stopped;
  stopped.pod.write(Start{"default/p", 5, {"true"}, {}, "/"});
  stopped.pod.write(Stop{5, "shutdown"});
  CHECK(stopped.run() == 0);
  const auto exit = stopped.pod.exit();
  REQUIRE(exit);
  CHECK(exit->code == 143);
  CHECK(exit->signal == SIGTERM);
  CHECK(exit->reason == "shutdown");
  CHECK(exit->message == "stopped before it was started");
  CHECK(is_now(exit->at));
  CHECK(is_now(exit->started_at));
  CHECK_FALSE(stopped.pod.started());
  const Supervised nothing;
  CHECK(nothing.run() == 1);
  CHECK(nothing.run(std::vector<std::string>{}) == 1);
  CHECK_FALSE(nothing.pod.exit());
  CHECK_FALSE(nothing.pod.started());
  const Supervised begun;
  begun.pod.write(Started{"2026-11-21T12:00:00Z", 0, {}});
  CHECK(begun.run({"true"}) == 0);
  CHECK_FALSE(begun.pod.exit());
}

}  // namespace supervisor_records

}  // namespace
}  // namespace mlk::local
