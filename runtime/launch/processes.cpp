#include "runtime/launch/processes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "runtime/base/exit_code.h"
#include "runtime/base/stop_signal.h"
#include "runtime/launch/launch_env.h"

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds look_interval{50};
constexpr std::chrono::seconds result_interval{1};
// If a process has to stop because another process has failed, it has this time to save a checkpoint. If the
// pod itself has to stop, the grace period of the pod is the limit.
constexpr std::chrono::seconds stop_patience{20};
// This is longer than the time for which a process of a trained run stays for other ranks
// (MLK_LATE_SECONDS).
constexpr std::chrono::seconds trained_patience{120};
constexpr std::size_t most_result_bytes = 4096;  // the most that the kubelet reads

[[noreturn]] void fail(const char* doing) { throw std::system_error(errno, std::generic_category(), doing); }

class PodProcesses {
 public:
  PodProcesses() = default;
  ~PodProcesses();
  PodProcesses(const PodProcesses&) = delete;
  PodProcesses& operator=(const PodProcesses&) = delete;

  int run(int count);

 private:
  struct Process {
    pid_t pid = 0;
    int result = -1;  // a file without a name, to which the process writes as its MLK_RESULT
  };

  void start(int local_rank);
  void collect_ended();
  bool all_have_ended() const {
    return std::ranges::all_of(ends_, [](const EndOfProcess& end) { return end.has_value(); });
  }
  void signal_all(int number) const;
  void write_result();

  StopSignal stop_;
  const std::string result_path_ = result_path_from_env();
  std::vector<Process> processes_;
  std::vector<EndOfProcess> ends_;
  std::optional<std::size_t> first_failed_;
  std::string written_;
};

PodProcesses::~PodProcesses() {
  signal_all(SIGKILL);
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (!ends_[i]) waitpid(processes_[i].pid, nullptr, 0);
    close(processes_[i].result);
  }
}

void PodProcesses::start(int local_rank) {
  Process process;
  process.result = memfd_create("result", 0);
  if (process.result < 0) fail("cannot make a file for the result of a process");
  const std::string rank = std::to_string(local_rank),
                    result = "/proc/self/fd/" + std::to_string(process.result);
  const pid_t parent = getpid();
  process.pid = fork();
  if (process.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The parent may have ended before the prctl. Then no signal comes, so this process ends at once.
    if (getppid() != parent) _exit(static_cast<int>(ExitCode::internal_error));
    setenv("MLK_LOCAL_RANK", rank.c_str(), 1);
    if (!result_path_.empty()) setenv("MLK_RESULT", result.c_str(), 1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    std::array<char*, 2> arguments = {const_cast<char*>("mlk-runtime"), nullptr};
    execv("/proc/self/exe", arguments.data());
    _exit(static_cast<int>(ExitCode::internal_error));
  }
  if (process.pid < 0) {
    close(process.result);
    fail("cannot start a process for each GPU");
  }
  processes_.push_back(process);
  ends_.emplace_back();
}

void PodProcesses::signal_all(int number) const {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (!ends_[i]) kill(processes_[i].pid, number);
  }
}

void PodProcesses::collect_ended() {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    int status = 0;
    if (ends_[i] || waitpid(processes_[i].pid, &status, WNOHANG) != processes_[i].pid) continue;
    ends_[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (*ends_[i] != 0 && !first_failed_) first_failed_ = i;
  }
}

void PodProcesses::write_result() {
  if (result_path_.empty()) return;
  std::array<char, most_result_bytes> bytes;
  const auto text_of = [&](std::size_t of) {
    const ssize_t size = pread(processes_[of].result, bytes.data(), bytes.size(), 0);
    return std::string(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  };
  std::string result = text_of(first_failed_.value_or(0));
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const std::string text = ends_[i] == 0 ? text_of(i) : std::string();
    if (text.find("\"done\":true") != std::string::npos) result = text;
  }
  if (result != written_ && write_over(result_path_, result)) written_ = result;
}

int PodProcesses::run(int count) {
  for (int local_rank = 0; local_rank < count; ++local_rank) start(local_rank);
  std::optional<steady_clock::time_point> trained, stopped;
  bool told = false;
  auto next_result = steady_clock::now() + result_interval;
  for (;;) {
    collect_ended();
    const auto first = first_failed_ ? ends_[*first_failed_] : EndOfProcess();
    const EndOfPod end = end_of_pod(ends_, first);
    if (all_have_ended()) {
      write_result();
      return end.code;
    }
    const auto now = steady_clock::now();
    if (stop_.requested() && !std::exchange(told, true)) signal_all(SIGTERM);
    if (!trained && std::ranges::count(ends_, EndOfProcess(0)) > 0) trained = now;
    if (!stopped && (end.stop_others || (trained && now - *trained > trained_patience))) {
      stopped = now;
      signal_all(SIGTERM);
    }
    if (stopped && !told && now - *stopped > stop_patience) signal_all(SIGKILL);
    if (now >= next_result) {
      write_result();
      next_result = now + result_interval;
    }
    if (told) {  // while the signal is pending, the wait below would end at once
      std::this_thread::sleep_for(look_interval);
    } else {
      stop_.wait(look_interval);
    }
  }
}

}  // namespace

int processes_of_pod() {
  const char *const gpus = std::getenv("MLK_GPUS"), *const local = std::getenv("MLK_LOCAL_RANK");
  int count = 1;
  if (!gpus || local) return 1;
  const auto [end, error] = std::from_chars(gpus, gpus + std::strlen(gpus), count);
  // read_launch_env() rejects any other value.
  return error == std::errc() && *end == '\0' && count >= 2 && count <= most_gpus ? count : 1;
}

EndOfPod end_of_pod(std::span<const EndOfProcess> processes, std::optional<int> first) {
  const bool trained = std::ranges::any_of(processes, [](const EndOfProcess& end) { return end == 0; });
  return {first && !trained, trained ? 0 : first.value_or(0)};
}

bool write_over(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  const bool is_written = pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
                          ftruncate(fd, static_cast<off_t>(text.size())) == 0;
  close(fd);
  return is_written;
}

int run_processes(int count) { return PodProcesses().run(count); }

}  // namespace mlk::rt
