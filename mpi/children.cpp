#include "mpi/children.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

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

// The parent stands behind the name, which may hold anything, and the state.
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
  return std::atoi(name_end + 4);
}

std::vector<Below> descendants(pid_t except) {
  std::vector<Below> all, out;
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return out;
  while (const dirent* entry = ::readdir(folder)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid > 0 && pid != except) all.push_back({pid, parent_of(entry->d_name)});
  }
  ::closedir(folder);
  // Each round finds the children of those that the last one has found.
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
  if (pid > 0) ::setpgid(pid, pid);  // whichever of the two comes first
  if (pid != 0) return pid;
  ::setpgid(0, 0);
  const sigset_t set = ours();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, 0);
  ::dup2(out, 1);
  ::dup2(err, 2);
  ::execvp(argv[0], argv.data());
  std::fprintf(stderr, "mlk: %s: %s\n", argv[0], std::strerror(errno));
  ::_exit(errno == ENOENT ? 127 : 126);
}

int code_of(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

void kill_descendants(pid_t except) {
  // Whoever was about to start one more is dead in the next round.
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
