#include "cli/util/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/util/text.h"

extern char** environ;  // NOLINT: POSIX has no header that declares it

namespace mlk {
namespace {

using Clock = std::chrono::steady_clock;

// Both ends of a pipe. Exec closes both, so the child duplicates its own end with dup2().
class Pipe {
 public:
  Pipe() {
    if (::pipe(ends_.data()) != 0) {
      throw Error(ExitCode::failure, std::string("cannot make a pipe: ") + std::strerror(errno));
    }
    for (const int end : ends_) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  }
  ~Pipe() {
    close_read();
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_read() { close_end(0); }
  void close_write() { close_end(1); }

 private:
  void close_end(std::size_t i) {
    if (ends_[i] >= 0) ::close(ends_[i]);
    ends_[i] = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

// Returns the path that exec would find. The search happens before the fork, because after the fork only
// async-signal-safe calls are allowed. Like Go and client-go, refuses a program that was found through a
// relative entry of PATH, because somebody else may have put the program into the working folder.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    struct stat info{};  // a folder can have the x bit too
    if (::stat(candidate.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        ::access(candidate.c_str(), X_OK) == 0) {
      if (folder.starts_with('/')) return candidate;
      throw Error(ExitCode::not_found,
                  "\"" + name + "\" was found in '" + (folder.empty() ? "." : folder) +
                      "', which PATH names relative to the working folder",
                  "make that entry of PATH absolute, or give the program's full path");
    }
  }
  throw Error(ExitCode::not_found, "no program \"" + name + "\" in PATH");
}

std::vector<std::string> environment_of(const Command& command) {
  std::vector<std::string> all;
  for (char** entry = environ; !command.empty_env && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(command.env.begin(), command.env.end(),
                                      [&](const auto& added) { return added.first == name; });
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : command.env) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// Runs in the child, where only async-signal-safe calls are allowed. On an error, writes errno to `report`.
// If `in` or `err` is negative, the child uses that stream of mlk. A child that uses the stdin of mlk stays
// in the process group of mlk.
[[noreturn]] void become(const char* program, char* const* argv, char* const* env, const char* folder, int in,
                         int out, int err, int report) {
  if (in >= 0) ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const bool ready = (in < 0 || ::dup2(in, 0) >= 0) && ::dup2(out, 1) >= 0 &&
                     (err < 0 || ::dup2(err, 2) >= 0) && (*folder == '\0' || ::chdir(folder) == 0);
  if (ready) ::execve(program, argv, env);
  const int number = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &number, sizeof number);
  ::_exit(127);
}

// The side of mlk: writes the stdin of the child, and collects its stdout and stderr until both are closed.
class Conversation {
 public:
  Conversation(const Command& command, Pipe& in, Pipe& out, Pipe& err)
      : command_(command), in_(in), out_(out), err_(err) {
    ::fcntl(in_.write_end(), F_SETFL, O_NONBLOCK);
    ::fcntl(out_.read_end(), F_SETFL, O_NONBLOCK);
    ::fcntl(err_.read_end(), F_SETFL, O_NONBLOCK);
    if (command.input.empty()) in_.close_write();
  }

  bool open() const { return out_.read_end() >= 0 || err_.read_end() >= 0; }

  // Waits at most `wait` until a pipe is ready. Then reads or writes each pipe that is ready.
  void step(std::chrono::milliseconds wait) {
    std::array<pollfd, 3> fds{
        {{in_.write_end(), POLLOUT, 0}, {out_.read_end(), POLLIN, 0}, {err_.read_end(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), static_cast<int>(wait.count())) <= 0) return;
    if (fds[0].revents != 0) feed();
    if (fds[1].revents != 0 && !drain(out_, result.output)) out_.close_read();
    if (fds[2].revents != 0 && !drain(err_, result.error)) err_.close_read();
  }

  ProcessResult result;

 private:
  void feed() {
    const ssize_t count =
        ::write(in_.write_end(), command_.input.data() + fed_, command_.input.size() - fed_);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count > 0) fed_ += static_cast<std::size_t>(count);
    if (count < 0 || fed_ == command_.input.size()) in_.close_write();  // EPIPE: the child stopped reading
  }

  // Returns false at the end of the stream.
  bool drain(Pipe& pipe, std::string& into) const {
    char buffer[65536];
    while (true) {
      const ssize_t count = ::read(pipe.read_end(), buffer, sizeof buffer);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return errno == EAGAIN;
      if (count == 0) return false;
      into.append(buffer, static_cast<std::size_t>(count));
      if (into.size() > command_.output_limit) {
        throw Error(ExitCode::failure, "program \"" + command_.argv[0] + "\" prints more than " +
                                           std::to_string(command_.output_limit) + " bytes");
      }
    }
  }

  const Command& command_;
  Pipe& in_;
  Pipe& out_;
  Pipe& err_;
  std::size_t fed_ = 0;
};

// If the child still lives at the end of the scope, kills the child, and its process group if the child leads
// one. Always reaps the child.
class Child {
 public:
  Child(pid_t pid, bool leads_group) : pid_(pid), leads_group_(leads_group) {
    if (leads_group_) ::setpgid(pid, pid);  // both processes call setpgid(), since either may run first
  }
  ~Child() {
    if (reaped_) return;
    kill();
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() const {
    if (leads_group_) ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
  }
  bool ended() {
    if (!reaped_) reaped_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return reaped_;
  }
  int wait() {
    while (!reaped_) {
      const pid_t got = ::waitpid(pid_, &status_, 0);
      if (got == pid_ || (got < 0 && errno != EINTR)) reaped_ = true;
    }
    return status_;
  }

 private:
  pid_t pid_;
  bool leads_group_;
  int status_ = 0;
  bool reaped_ = false;
};

// A write to a child that has ended must fail with an error, and must not kill this program.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    sigset_t pending;
    int number = 0;
    if (::sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1 &&
        sigismember(&before_, SIGPIPE) == 0) {
      ::sigwait(&pipe_, &number);
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
};

pid_t spawn(const Command& command, Pipe& in, Pipe& out, Pipe& err) {
  const std::string program = find_program(command.argv.at(0));
  std::vector<std::string> arguments = command.argv, variables = environment_of(command);
  const std::vector<char*> argv = pointers(arguments), env = pointers(variables);
  Pipe report;
  const pid_t pid = ::fork();
  if (pid < 0) throw Error(ExitCode::failure, std::string("cannot start a process: ") + std::strerror(errno));
  if (pid == 0) {
    become(program.c_str(), argv.data(), env.data(), command.folder.c_str(),
           command.of_terminal ? -1 : in.read_end(), out.write_end(),
           command.of_terminal ? -1 : err.write_end(), report.write_end());
  }
  report.close_write();
  int number = 0;
  ssize_t got = 0;
  do got = ::read(report.read_end(), &number, sizeof number);
  while (got < 0 && errno == EINTR);
  if (got == sizeof number) {
    ::waitpid(pid, nullptr, 0);
    const std::string what = "cannot run " + command.argv[0] + ": " + std::strerror(number);
    if (number == ENOEXEC || number == EACCES) throw CannotExecute(ExitCode::failure, what);
    throw Error(number == ENOENT ? ExitCode::not_found : ExitCode::failure, what);
  }
  return pid;
}

}  // namespace

ProcessResult run_process(const Command& command) {
  if (command.argv.empty() || command.argv[0].empty()) throw Error(ExitCode::usage, "no program to run");
  const WithoutSigpipe guard;
  const Clock::time_point deadline = Clock::now() + command.timeout;
  Pipe in, out, err;
  Child child(spawn(command, in, out, err), !command.of_terminal);
  in.close_read();
  out.close_write();
  err.close_write();
  Conversation conversation(command, in, out, err);
  // Only the end of the child matters, but a grandchild may keep the pipes open. So the loop waits in short
  // steps.
  constexpr std::chrono::milliseconds step{20};
  ProcessResult& result = conversation.result;
  const auto patient = [&] {
    if (!result.given_up && command.go_on && !command.go_on(result)) result.given_up = true;
    return !result.given_up && Clock::now() < deadline;
  };
  bool ended = false;
  while (conversation.open() && !ended && patient()) {
    ended = child.ended();
    conversation.step(ended ? std::chrono::milliseconds(0) : step);
  }
  while (!ended && !child.ended() && patient())
    ::poll(nullptr, 0, 1);  // wait: the child closed its output before it ended
  if (!child.ended()) {
    child.kill();
    result.timed_out = !result.given_up;
  }
  const int status = child.wait();
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return result;
}

}  // namespace mlk
