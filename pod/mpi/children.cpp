#include "pod/mpi/children.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pod/mpi/link.h"

namespace mlk::mpi {
namespace {

sigset_t ours() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) ::sigaddset(&set, signal);
  return set;
}

struct Below {
  pid_t pid = 0, parent = 0;
};

// The parent of a process; 0 for a zombie. /proc/PID/stat has the name, the state and the parent, in this
// order; the name may contain any text.
pid_t parent_of(const char* pid) {
  char path[300], text[512];
  std::snprintf(path, sizeof path, "/proc/%s/stat", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t size = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (size <= 0) return 0;
  text[size] = '\0';
  const char* name_end = std::strrchr(text, ')');
  if (name_end == nullptr || std::strlen(name_end) < 5 || name_end[2] == 'Z') return 0;
  const std::string_view parent = name_end + 4;
  return parse_number(parent.substr(0, parent.find(' '))).value_or(0);
}

std::vector<Below> descendants(pid_t except) {
  std::vector<Below> all, out;
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return out;
  while (const dirent* entry = ::readdir(folder)) {
    const pid_t pid = parse_number(entry->d_name).value_or(0);
    if (pid > 0 && pid != except) all.push_back({pid, parent_of(entry->d_name)});
  }
  ::closedir(folder);
  // Each round finds the children of the processes from the round before.
  std::vector<pid_t> parents{::getpid()};
  while (!parents.empty()) {
    std::vector<pid_t> next;
    for (const Below& each : all) {
      if (std::find(parents.begin(), parents.end(), each.parent) == parents.end()) continue;
      out.push_back(each);
      next.push_back(each.pid);
    }
    parents = next;
  }
  return out;
}

}  // namespace

int take_signals() {
  const sigset_t set = ours();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

Arrived read_signals(int fd) {
  Arrived out;
  signalfd_siginfo info;
  while (::read(fd, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGCHLD) {
      out.child = true;
    } else {
      out.stop = true;
    }
  }
  return out;
}

pid_t spawn(const std::vector<std::string>& words, int out, int err) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid > 0) ::setpgid(pid, pid);  // called in both processes, since either process may run first
  if (pid != 0) return pid;
  ::setpgid(0, 0);
  const sigset_t set = ours();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, 0);
  if (null > 0) ::close(null);
  ::dup2(out, 1);
  ::dup2(err, 2);
  ::execvp(argv[0], argv.data());
  std::fprintf(stderr, "mlk: %s: %s\n", argv[0], std::strerror(errno));
  ::_exit(errno == ENOENT ? 127 : 126);
}

void end_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(128 + SIGKILL);
}

Said said_by(const std::vector<std::string>& words, std::int64_t bound_ms) {
  constexpr std::size_t most = 1 << 16;
  constexpr int look_ms = 10;
  const std::int64_t until = now_ms() + bound_ms;
  Said out;
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return {.text = "", .code = 126};
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  const pid_t child = spawn(words, pipe[1], null);
  ::close(null);
  ::close(pipe[1]);
  pollfd more{.fd = pipe[0], .events = POLLIN, .revents = 0};
  int status = 0;
  bool ended = child < 0;
  // Waits for the end of the program, and not for the end of the pipe: the program's child processes may hold
  // the pipe open, and the program may close the pipe early.
  while (!ended && now_ms() < until) {
    ended = ::waitpid(child, &status, WNOHANG) == child;
    if (more.fd < 0 && !ended) ::usleep(look_ms * 1000);
    while (more.fd >= 0 && now_ms() < until && ::poll(&more, 1, ended ? 0 : look_ms) > 0) {
      char buffer[4096];
      const ssize_t size = ::read(more.fd, buffer, sizeof buffer);
      if (size <= 0) more.fd = -1;
      if (size > 0 && out.text.size() < most) out.text.append(buffer, static_cast<std::size_t>(size));
    }
  }
  if (!ended) {
    ::kill(-child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  ::close(pipe[0]);
  out.code = child < 0 ? 126 : code_of(status);
  out.in_time = ended;
  return out;
}

int code_of(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

void kill_descendants(pid_t except) {
  // Makes several rounds: a process may start a new process just before its end, and the next round kills the
  // new process.
  for (int round = 0; round < 10; ++round) {
    const std::vector<Below> below = descendants(except);
    if (below.empty()) return;
    for (const Below& each : below) ::kill(each.pid, SIGKILL);
    ::usleep(2000);
  }
}

std::string number(long long value) {
  char text[32];
  std::snprintf(text, sizeof text, "%lld", value);
  return text;
}

}  // namespace mlk::mpi
