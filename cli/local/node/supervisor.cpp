// The supervisor of one pod: starts the program, writes the program's output to the log, ends the program on
// request, and records how it ended. The supervisor has a session of its own and needs no server: a later
// server reads the pod's folder.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>

#include "cli/local/node/log_writer.h"
#include "cli/local/node/pod_folder.h"
#include "cli/local/node/processes.h"
#include "cli/local/node/supervisor.h"
#include "cli/util/error.h"
#include "cli/util/time.h"

extern char** environ;  // NOLINT: POSIX has no header that declares it

namespace mlk::local {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::uint64_t log_limit = 64 << 20;
constexpr milliseconds notice_interval{50};
constexpr milliseconds drain_limit{2000};
constexpr milliseconds end_limit{
    10000};  // for a process that cannot be killed, because it waits for a dead disk
constexpr milliseconds first_pause{100}, longest_pause{5000};  // between attempts to write the record
constexpr milliseconds shutdown_patience{5000};

// The signal handlers only write to this pipe, since few functions are safe in a signal handler.
int signal_pipe[2] = {-1, -1};

void on_signal(int number) {
  const int saved = errno;
  const char byte = static_cast<char>(number);
  [[maybe_unused]] const ssize_t written = ::write(signal_pipe[1], &byte, 1);
  errno = saved;
}

void make_pipe(int fds[2]) {
  if (::pipe(fds) != 0) throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
  for (int i = 0; i < 2; ++i) ::fcntl(fds[i], F_SETFD, FD_CLOEXEC);
}

std::string now_text() { return format_time(std::chrono::system_clock::now()); }

// Notifies the server, if one runs, that the folder of this pod has new records.
class Notices {
 public:
  Notices(std::filesystem::path fifo, std::string uid)
      : fifo_(std::move(fifo)), line_(std::move(uid) + "\n") {}
  ~Notices() {
    if (fd_ >= 0) ::close(fd_);
  }
  void send() {
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (fd_ < 0) fd_ = ::open(fifo_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
      if (fd_ < 0) return;  // no server
      if (::write(fd_, line_.data(), line_.size()) >= 0 || errno == EAGAIN) return;
      ::close(fd_);
      fd_ = -1;
    }
  }

 private:
  const std::filesystem::path fifo_;
  const std::string line_;
  int fd_ = -1;
};

struct Child {
  pid_t pid = -1;
  int out = -1, err = -1;
  std::string failure;  // why the program could not be started
};

// Runs between fork and exec, and never returns. Writes the errno of a failed exec to `report`.
[[noreturn]] void become(const Start& start, const PodFolder& folder, int out, int err, int report,
                         pid_t parent) {
  ::setpgid(0, 0);
#ifdef __linux__
  // The kernel kills the program when the supervisor dies, since no other process would record the end of the
  // program.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (::getppid() != parent) ::_exit(128 + SIGKILL);
  for (const int number : {SIGTERM, SIGCHLD, SIGPIPE, SIGINT, SIGHUP}) ::signal(number, SIG_DFL);
  // All other descriptors are closed on exec, so the program gets only these three.
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(null, 0);
  ::dup2(out, 1);
  ::dup2(err, 2);
  // If the working folder does not exist on this machine, for example because it is a folder of the image,
  // the pod's own folder takes its place.
  if (::chdir(start.working_folder.c_str()) != 0 && ::chdir(folder.path().c_str()) != 0) ::_exit(126);
  std::vector<std::string> pairs{folder.mark()};
  std::vector<char*> env, argv;
  for (const auto& [name, value] : start.env) pairs.push_back(name + "=" + value);
  for (std::string& pair : pairs) env.push_back(pair.data());
  for (const std::string& word : start.argv) argv.push_back(const_cast<char*>(word.c_str()));
  env.push_back(nullptr);
  argv.push_back(nullptr);
  environ = env.data();  // the program is looked up in its own PATH
  ::execvp(argv[0], argv.data());
  const int number = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &number, sizeof number);
  ::_exit(128);
}

Child start_program(const Start& start, const PodFolder& folder) {
  int out[2], err[2], report[2];
  make_pipe(out);
  make_pipe(err);
  make_pipe(report);
  Child child;
  const pid_t parent = ::getpid();
  child.pid = ::fork();
  if (child.pid == 0) become(start, folder, out[1], err[1], report[1], parent);
  for (const int fd : {out[1], err[1], report[1]}) ::close(fd);
  int number = child.pid < 0 ? errno : 0;
  if (child.pid > 0) {
    ::setpgid(child.pid, child.pid);  // parent and child both call this, since either may run first
    while (::read(report[0], &number, sizeof number) < 0 && errno == EINTR) {
    }
  }
  ::close(report[0]);
  if (number != 0) {
    const std::string why = number == ENOENT ? "executable file not found in $PATH" : std::strerror(number);
    child.failure = "exec: \"" + (start.argv.empty() ? std::string() : start.argv.front()) + "\": " + why;
  }
  child.out = out[0];
  child.err = err[0];
  return child;
}

class Supervisor {
 public:
  explicit Supervisor(const PodFolder& folder)
      : folder_(folder),
        notices_(folder.path().parent_path().parent_path() / "notices", folder.uid()),
        log_(folder.path() / "log", log_limit),
        out_(log_, "stdout"),
        err_(log_, "stderr") {}

  void run(const Start& start) {
    started_at_ = now_text();
    grace_ = start.grace_seconds;
    folder_.write(Started{started_at_, 0, self_});
    child_ = start_program(start, folder_);
    if (!child_.failure.empty()) {
      if (child_.pid > 0) ::waitpid(child_.pid, nullptr, 0);
      return record({128, 0, now_text(), started_at_, "StartError", child_.failure});
    }
    record_start();
    notices_.send();
    if (folder_.stop()) obey_stop();
    while (!ended_) wait_once();
    drain();
    record(exit_);
  }

 private:
  // On a full disk, the supervisor writes the record later, when the program prints something. Until then,
  // the status of the pod is not Running.
  void record_start() {
    try {
      folder_.write(Started{started_at_, child_.pid, self_});
      start_is_recorded_ = true;
    } catch (const Error& error) {
      std::cerr << error.what() << '\n';
    }
  }

  // Without the record, the pod counts as lost, and its program runs again. So if the disk is full, the
  // supervisor waits until the disk has room. After a shutdown of the cluster, the program runs again in any
  // case, so the supervisor waits only for a limited time.
  void record(const Exit& exit) {
    const bool is_worth_waiting = exit.reason != shutdown_reason;
    const auto end = steady_clock::now() + shutdown_patience;
    for (auto pause = first_pause;; pause = std::min(pause * 2, longest_pause)) {
      try {
        folder_.write(exit);
        return notices_.send();
      } catch (const Error& error) {
        std::cerr << error.what() << '\n';
      }
      std::error_code ignored;
      if (!std::filesystem::exists(folder_.path(), ignored))
        return;  // the folder is gone, so the record would never be read
      if (!is_worth_waiting && steady_clock::now() >= end) return;
      struct pollfd signals = {signal_pipe[0], POLLIN, 0};
      ::poll(&signals, 1, static_cast<int>(pause.count()));
      char bytes[64];
      while (::read(signal_pipe[0], bytes, sizeof bytes) > 0) {
      }
    }
  }

  // Waits for output, a signal, or a deadline.
  void wait_once() {
    struct pollfd fds[3] = {{child_.out, POLLIN, 0}, {child_.err, POLLIN, 0}, {signal_pipe[0], POLLIN, 0}};
    std::optional<steady_clock::time_point> next = kill_at_;
    const auto wake_at = [&](const std::optional<steady_clock::time_point>& time) {
      if (time && (!next || *time < *next)) next = time;
    };
    if (news_) wake_at(next_notice_);
    wake_at(out_.due());
    wake_at(err_.due());
    int timeout = -1;
    if (next) {
      const auto left = std::chrono::duration_cast<milliseconds>(*next - steady_clock::now()).count() + 1;
      timeout = static_cast<int>(std::clamp<long long>(left, 0, 60000));
    }
    if (::poll(fds, 3, timeout) > 0) {
      read_output(fds[0].revents, child_.out, out_);
      read_output(fds[1].revents, child_.err, err_);
      if (fds[2].revents != 0) read_signals();
    }
    const auto now = steady_clock::now();
    for (LogStream* stream : {&out_, &err_}) news_ = stream->pass_on(now) || news_;
    if (news_ && now >= next_notice_) {
      if (!start_is_recorded_) record_start();
      notices_.send();
      news_ = false;
      next_notice_ = now + notice_interval;
    }
    if (kill_at_ && now >= *kill_at_) {
      end_descendants(child_.pid, end_limit);
      kill_at_.reset();
      poll_children();
    }
  }

  void read_output(short events, int& fd, LogStream& stream) {
    if (fd < 0 || events == 0) return;
    char buffer[65536];
    const ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count > 0) {
      stream.feed({buffer, static_cast<std::size_t>(count)});
      news_ = true;
    } else if (count == 0 || errno != EINTR) {
      ::close(fd);
      fd = -1;
    }
  }

  void read_signals() {
    char bytes[64];
    const ssize_t count = ::read(signal_pipe[0], bytes, sizeof bytes);
    for (ssize_t i = 0; i < count; ++i) {
      if (bytes[i] == SIGTERM) obey_stop();
    }
    poll_children();
  }

  // stop.json is missing if the disk was full, or if the whole machine shuts down. Then the reason counts as
  // a shutdown of the cluster.
  void obey_stop() {
    const Stop stop = folder_.stop().value_or(Stop{grace_, shutdown_reason});
    if (!asked_) signal_group(child_.pid, SIGTERM);
    asked_ = true;
    if (!stop.reason.empty()) exit_.reason = stop.reason;
    const auto end = steady_clock::now() + std::chrono::seconds(std::clamp(stop.grace_seconds, 0L, 100000L));
    kill_at_ = kill_at_ ? std::min(*kill_at_, end) : end;
  }

  // The end of the program is the end of the pod, as with process 1 in a container. Processes that the
  // program started in other sessions are children of this supervisor by then, and it ends them, too.
  void poll_children() {
    siginfo_t info{};
    while (!ended_ && ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
      if (info.si_pid == child_.pid) {
        end_descendants(child_.pid, end_limit);
        note_end();
      } else {
        ::waitpid(info.si_pid, nullptr, WNOHANG);
      }
      info = {};
    }
  }

  void note_end() {
    int status = 0;
    while (::waitpid(child_.pid, &status, 0) < 0 && errno == EINTR) {
    }
    exit_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    exit_.code = exit_.signal != 0 ? 128 + exit_.signal : WEXITSTATUS(status);
    exit_.at = now_text();
    exit_.started_at = started_at_;
    ended_ = true;
  }

  // Reads the pipes to their end, but only for a limited time, since a process that could not be killed may
  // keep the pipes open.
  void drain() {
    const auto end = steady_clock::now() + drain_limit;
    while ((child_.out >= 0 || child_.err >= 0) && steady_clock::now() < end) {
      struct pollfd fds[2] = {{child_.out, POLLIN, 0}, {child_.err, POLLIN, 0}};
      if (::poll(fds, 2, 100) < 0 && errno != EINTR) break;
      read_output(fds[0].revents, child_.out, out_);
      read_output(fds[1].revents, child_.err, err_);
    }
    out_.finish();
    err_.finish();
  }

  const PodFolder& folder_;
  Notices notices_;
  LogFile log_;
  LogStream out_, err_;
  const ProcessId self_ = ProcessId::of_this_process();
  std::string started_at_;
  long grace_ = 0;
  Child child_;
  bool start_is_recorded_ = false;
  bool ended_ = false;
  bool asked_ = false;
  bool news_ = false;
  std::optional<steady_clock::time_point> kill_at_;
  steady_clock::time_point next_notice_{};
  Exit exit_;
};

}  // namespace

int supervise(const std::filesystem::path& pod_folder) {
  const PodFolder folder(pod_folder);
  const FileLock lock(pod_folder / "lock");
  // Another supervisor runs the pod or has run it, or the server has just decided that the pod is lost. So
  // this supervisor ends.
  if (!lock.held() || folder.exit() || folder.started()) return 0;
  if (const auto stop = folder.stop()) {
    folder.write(
        Exit{128 + SIGTERM, SIGTERM, now_text(), now_text(), stop->reason, "stopped before it was started"});
    return 0;
  }
  const auto start = folder.start();
  if (!start || start->argv.empty()) return 1;
  make_pipe(signal_pipe);
  for (int i = 0; i < 2; ++i) ::fcntl(signal_pipe[i], F_SETFL, O_NONBLOCK);
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGCHLD, &action, nullptr);
  for (const int number : {SIGPIPE, SIGINT, SIGHUP}) ::signal(number, SIG_IGN);
  adopt_orphans();
  Supervisor(folder).run(*start);
  return 0;
}

}  // namespace mlk::local
