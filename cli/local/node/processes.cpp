#include "cli/local/node/processes.h"

#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "cli/local/state/file_lock.h"

namespace mlk::local {
namespace {

// Refers to one process, even if its number is reused. Uses the kernel's descriptor of the process, where the
// system has one.
class Handle {
 public:
  explicit Handle(pid_t pid) : pid_(pid) {
#ifdef SYS_pidfd_open
    fd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
#endif
  }
  ~Handle() {
    if (fd_ >= 0) ::close(fd_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  bool signal(int number) const {
    if (pid_ <= 0) return false;  // kill() would signal a group, or all processes
#ifdef SYS_pidfd_send_signal
    if (fd_ >= 0) return ::syscall(SYS_pidfd_send_signal, fd_, number, nullptr, 0) == 0;
#endif
    return ::kill(pid_, number) == 0;
  }

 private:
  const pid_t pid_;
  int fd_ = -1;
};

struct Stat {
  pid_t parent = 0, session = 0;
  unsigned long long start = 0;
};

std::filesystem::path folder_of(pid_t pid) { return "/proc/" + std::to_string(pid); }

std::optional<Stat> stat_of(pid_t pid) {
  std::ifstream file(folder_of(pid) / "stat");
  std::string text;
  std::getline(file, text, '\0');
  // The name is in parentheses and may itself contain ')'. The fields after the last ')' have fixed
  // positions.
  const auto end = text.rfind(')');
  if (end == text.npos) return std::nullopt;
  std::istringstream words(text.substr(end + 1));
  Stat stat;
  std::string skipped;
  words >> skipped >> stat.parent >> skipped >> stat.session;
  for (int field = 7; field < 22; ++field) words >> skipped;
  words >> stat.start;
  if (!words) return std::nullopt;
  return stat;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.find_first_not_of("0123456789") == name.npos && name.size() < 10)
      found.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return found;
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  return text;
}

bool has_in_environment(pid_t pid, const std::string& pair) {
  std::ifstream file(folder_of(pid) / "environ", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) {
    if (word == pair) return true;
  }
  return false;
}

}  // namespace

ProcessId ProcessId::of_this_process() {
  const auto stat = stat_of(::getpid());
  return stat ? ProcessId{::getpid(), stat->start, boot_id()} : ProcessId{};
}

bool signal_holder(const std::filesystem::path& lock, int number) {
  const Holder holder = FileLock::holder(lock);
  if (!holder.here()) return false;
  const Handle process(holder.pid);
  // The process held the lock before and after the handle was made, so the handle refers to this process.
  return FileLock::holder(lock) == holder && process.signal(number);
}

void signal_group(pid_t child, int number) {
  if (child > 1) ::kill(-child, number);
}

void adopt_orphans() {
#ifdef PR_SET_CHILD_SUBREAPER
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
#endif
}

bool end_descendants(pid_t kept, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (true) {
    // Kills only children, since the number of a child is not reused before we reap the child. Grandchildren
    // become our children when their parents are gone.
    bool left = false;
    for (const pid_t pid : all_processes()) {
      const auto stat = stat_of(pid);
      if (!stat || stat->parent != ::getpid()) continue;
      ::kill(pid, SIGKILL);
      siginfo_t info{};
      const bool ended = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                         info.si_pid == pid;
      if (pid == kept && ended) continue;
      left = true;
      if (ended) ::waitpid(pid, nullptr, WNOHANG);
    }
    if (!left) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void end_orphans(const ProcessId& supervisor, const std::string& mark) {
  // While a session has members, the kernel does not give the number of the session to a new process. So if
  // another process has this number now, the session is empty.
  const auto now = stat_of(supervisor.pid);
  const bool session_is_ours =
      supervisor.pid > 1 && supervisor.boot == boot_id() && (!now || now->start == supervisor.start);
  for (const pid_t pid : all_processes()) {
    if (pid == ::getpid()) continue;
    const Handle process(pid);  // made before the check, so that the signal goes to the checked process
    const auto stat = stat_of(pid);
    if (!stat) continue;
    if ((session_is_ours && stat->session == supervisor.pid) || has_in_environment(pid, mark))
      process.signal(SIGKILL);
  }
}

}  // namespace mlk::local
