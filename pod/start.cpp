#include "pod/start.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pod/base/output.h"
#include "pod/outputs.h"

namespace mlk::pod {
namespace {

constexpr int cannot_start = 126, no_program = 127;

// Whether mlk has started the pod as a process of the user's machine.
bool on_one_machine() {
  const char* address = std::getenv("MLK_ADDRESS");
  return address != nullptr && std::string_view(address).starts_with("127.");
}

// All signals that another process may send. Signals of faults in this process itself keep their effect.
sigset_t forwarded() {
  sigset_t set;
  ::sigfillset(&set);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
    ::sigdelset(&set, fault);
  return set;
}

[[noreturn]] void execute(const std::vector<std::string>& program, const sigset_t& mask, pid_t parent) {
  // Without this, a kill -9 of the parent alone would leave the program behind.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(128 + SIGKILL);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  std::vector<char*> argv;
  for (const std::string& word : program) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  give_up(errno == ENOENT ? no_program : cannot_start, program[0] + ": " + std::strerror(errno));
}

// Waits for the end of `child`, and sends it the signals that arrive. Returns the status of the child.
int wait_for(pid_t child, const sigset_t& signals) {
  while (true) {
    int status = 0;
    // Also ends the zombies of other processes, because this process may be process 1 of the container.
    for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended == child) return status;
    }
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&signals, &info);
    if (signal <= 0 || signal == SIGCHLD) continue;
    if (signal == SIGTERM && on_one_machine()) continue;  // there, all processes of the group get it
    ::kill(child, signal);
  }
}

// Ends this process as the child has ended.
int end_like(int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  const int signal = WTERMSIG(status);
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  ::setrlimit(RLIMIT_CORE, &none);  // the child has written its core already
  ::signal(signal, SIG_DFL);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  ::kill(::getpid(), signal);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  return 128 + signal;  // process 1 of a container does not end by its own signal
}

}  // namespace

int start(const std::vector<std::string>& words) {
  const auto separator = std::find(words.begin(), words.end(), "--");
  if (separator == words.end() || separator + 1 == words.end()) give_up(64, "mlk-pod start: no program");
  std::vector<std::string> folders(words.begin(), separator);
  const std::vector<std::string> program(separator + 1, words.end());
  if (!folders.empty() && folders.front() == "--own-folder") {
    folders.erase(folders.begin());
    if (on_one_machine()) folders.clear();
  }
  const char* place = std::getenv("MLK_OUTPUTS");
  if (place == nullptr || place[0] == '\0') give_up(cannot_start, "MLK_OUTPUTS is not set");
  const std::string outputs = place;
  if (const std::string mistake = make_place(outputs); !mistake.empty()) give_up(cannot_start, mistake);
  for (const std::string& folder : folders) {
    if (const std::string mistake = link_output(folder, outputs + "/" + folder); !mistake.empty())
      give_up(cannot_start, mistake);
  }
  const sigset_t signals = forwarded();
  sigset_t before;
  ::signal(SIGCHLD, SIG_DFL);  // an ignored SIGCHLD would hide the end of the child
  ::sigprocmask(SIG_SETMASK, &signals, &before);
  const pid_t own = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) give_up(cannot_start, std::string("cannot start a process: ") + std::strerror(errno));
  if (child == 0) execute(program, before, own);
  const int status = wait_for(child, signals);
  for (const std::string& folder : folders) {
    if (const std::string mistake = keep_output(folder, outputs + "/" + folder); !mistake.empty())
      log(mistake);
  }
  return end_like(status);
}

}  // namespace mlk::pod
