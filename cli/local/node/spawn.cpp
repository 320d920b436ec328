#include "cli/local/node/spawn.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "cli/util/error.h"

namespace mlk::local {

pid_t spawn_detached(const std::vector<std::string>& argv, const std::filesystem::path& log) {
  // All allocations happen before the fork, since another thread may hold the lock of the heap at the fork.
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const std::string log_path = log.string();
  // The child closes all descriptors below this number, since sockets of the HTTP library are not closed on
  // exec. A new descriptor always gets the lowest free number, so this process has none above this number.
  const int highest = static_cast<int>(std::clamp(::sysconf(_SC_OPEN_MAX), 256L, 4096L));
  const pid_t pid = ::fork();
  if (pid < 0) throw Error(ExitCode::failure, std::string("cannot start a process: ") + std::strerror(errno));
  if (pid > 0) return pid;

  ::setsid();
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::signal(number, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  const int output = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(null, 0);
  // If the log cannot be opened (the disk is full), the output goes to /dev/null: descriptors 1 and 2 must
  // not stay free, since the next opened file would get them.
  const int nowhere = output < 0 ? ::open("/dev/null", O_WRONLY) : output;
  ::dup2(nowhere, 1);
  ::dup2(nowhere, 2);
  for (int fd = 3; fd < highest; ++fd) ::close(fd);
  ::execv(words[0], words.data());
  const char* why = errno == ENOENT ? "cannot start mlk: its file is gone\n" : "cannot start mlk\n";
  [[maybe_unused]] const ssize_t written = ::write(2, why, std::strlen(why));
  ::_exit(127);
}

}  // namespace mlk::local
