#include "pod/mpi/launcher.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pod/mpi/agent.h"
#include "pod/mpi/children.h"
#include "pod/mpi/mpirun.h"

namespace mlk::mpi {
namespace {

constexpr std::int64_t time_to_settle_ms =
    2000;  // after the first sign of a failure: later reports may show that a lost pod is the cause
constexpr std::int64_t time_to_finish_ms = 10000;
constexpr unsigned time_to_be_known_ms = 3000;  // the time for the nodes to report the other pods' ends
constexpr int time_to_connect_ms = 2000;
constexpr std::int64_t time_to_say_version_ms = 60000;  // mpirun may have to be loaded over a slow network
constexpr int not_there = 127, not_usable = 126;

// The version text of mpirun, or of mpiexec if mpirun does not exist. `name`: set to the one that exists.
std::string version_of_mpirun(std::string& name) {
  for (const char* candidate : {"mpirun", "mpiexec"}) {
    const Said version = said_by({candidate, "--version"}, time_to_say_version_ms);
    name = candidate;
    if (!version.in_time)
      give_up(not_usable,
              "`" + name + " --version` has not ended for " + number(time_to_say_version_ms / 1000) + " s");
    if (version.code != not_there) return version.text;
  }
  name.clear();
  return {};
}

void write_file(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    give_up(not_usable, "cannot write " + path + ": " + std::strerror(errno));
  ::close(fd);
}

class Launcher {
 public:
  Launcher(const PodEnvironment& environment, std::vector<std::string> mpirun, pid_t agent)
      : environment_(environment),
        mpirun_words_(std::move(mpirun)),
        agent_(agent),
        signals_(take_signals()),
        links_(environment.all.size()) {}

  int run() {
    while (true) {
      gather();
      if (try_once()) finish();
    }
  }

 private:
  std::string name(std::size_t pod) const {
    return environment_.role + "/" + number(static_cast<long long>(pod));
  }

  // Waits until all agents are connected.
  void gather() {
    std::size_t there = 0;
    for (std::int64_t news = now_ms(); there < links_.size();) {
      const std::size_t before = there;
      there = 0;
      std::size_t missing = links_.size();
      for (std::size_t pod = 0; pod < links_.size(); ++pod) {
        handle_signals();
        if (links_[pod] || reach(pod)) {
          ++there;
        } else if (missing == links_.size()) {
          missing = pod;
        }
      }
      if (there > before) news = now_ms();
      if (there < links_.size() && now_ms() - news > environment_.patience_ms)
        give_up_with(gave_up, name(missing) + " is not there");
      if (there < links_.size()) wait(300);
    }
  }

  bool reach(std::size_t pod) {
    links_[pod] = connect_to(environment_.all[pod], environment_.key, time_to_connect_ms);
    if (!links_[pod]) return false;
    if (wait_until_ready(*links_[pod], time_to_connect_ms)) {
      links_[pod]->session().send(Type::lead);
      if (links_[pod]->flush()) return true;
    }
    links_[pod].reset();
    return false;
  }

  // Runs mpirun once. Returns true if mpirun has ended with 0, and no process has failed.
  bool try_once() {
    reports_.clear();
    lost_ = stopping_ = false;
    mpirun_code_.reset();
    mpirun_ = spawn(mpirun_words_, 1, 2);
    if (mpirun_ < 0) give_up_with(gave_up, std::string("cannot start mpirun: ") + std::strerror(errno));
    std::int64_t decide_at = 0;
    while (true) {
      wait(500);
      const bool failed =
          std::any_of(reports_.begin(), reports_.end(), [](const Reported& each) { return !each.end.told; });
      const bool over = mpirun_code_ || lost_ || failed;
      if (over && decide_at == 0) decide_at = now_ms() + time_to_settle_ms;
      if (mpirun_code_ == 0 && reports_.empty()) break;
      if (decide_at != 0 && now_ms() >= decide_at) break;
    }
    if (mpirun_code_ == 0 && reports_.empty()) return true;
    const int code = mpirun_code_.value_or(1);
    kill_descendants(agent_);
    if (const std::optional<Reported> fault = at_fault(reports_, lost_ || stopping_, code)) {
      blame(*fault);
    } else {
      log("a pod was lost or is being stopped; mpirun starts again when all are there");
    }
    return false;
  }

  void blame(const Reported& fault) {
    if (fault.pod != 0)
      log(name(fault.pod) + " ends with " + number(fault.end.code) + "; mpirun starts again when it is back");
    send_end(fault.pod, fault.end.code);
    const std::int64_t until = now_ms() + time_to_finish_ms;
    while (links_[fault.pod] && now_ms() < until) wait(100);
    links_[fault.pod].reset();
  }

  // Ends all pods with exit code 0.
  [[noreturn]] void finish() {
    for (std::size_t pod = 0; pod < links_.size(); ++pod) send_end(pod, 0);
    const std::int64_t until = now_ms() + time_to_finish_ms;
    const auto is_open = [](const std::optional<Link>& link) { return link.has_value(); };
    finishing_ = true;
    while (std::any_of(links_.begin(), links_.end(), is_open) && now_ms() < until) wait(100);
    kill_descendants();
    // Waits before this pod ends. When this pod ends, the Job deletes every pod whose end the Job does not
    // know yet, together with the pod's log.
    if (!environment_.on_one_machine()) ::usleep(time_to_be_known_ms * 1000);
    ::_exit(0);
  }

  void send_end(std::size_t pod, std::uint8_t code) {
    const std::byte payload{code};
    if (!links_[pod]) return;
    links_[pod]->session().send(Type::finish, std::span(&payload, 1));
    if (!links_[pod]->flush()) links_[pod].reset();
  }

  void wait(int timeout_ms) {
    std::vector<pollfd> fds{{signals_, POLLIN, 0}};
    for (const auto& link : links_)
      fds.push_back({link ? link->fd() : -1, static_cast<short>(link ? link->events() : 0), 0});
    if (::poll(fds.data(), fds.size(), timeout_ms) < 0) return;
    for (std::size_t pod = 0; pod < links_.size(); ++pod) {
      if (fds[pod + 1].revents == 0) continue;
      Link& link = *links_[pod];
      const bool open = link.work(fds[pod + 1].revents);
      while (const std::optional<Frame> frame = link.session().next()) on_frame(pod, *frame);
      if (open && !link.session().broken()) continue;
      links_[pod].reset();
      lost_ = true;
    }
    handle_signals();
  }

  void on_frame(std::size_t pod, const Frame& frame) {
    if (frame.type == Type::stopping) stopping_ = true;  // the pod's processes save a last checkpoint
    if (frame.type != Type::failed) return;
    if (const std::optional<End> end = decode_end(frame.payload)) reports_.push_back({pod, *end});
  }

  // Handles signals and the ends of child processes.
  void handle_signals() {
    const Arrived news = read_signals(signals_);
    if (news.stop) ::kill(agent_, SIGTERM);  // the agent ends the program, and then ends itself
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid == mpirun_) mpirun_code_ = code_of(status);
      if (pid == agent_ && !finishing_) {
        kill_descendants();
        ::_exit(code_of(status));
      }
    }
  }

  [[noreturn]] void give_up_with(int code, const std::string& text) {
    log(text);
    kill_descendants();
    ::_exit(code);
  }

  const PodEnvironment& environment_;
  const std::vector<std::string> mpirun_words_;
  const pid_t agent_;
  const int signals_;
  std::vector<std::optional<Link>> links_;  // by pod
  pid_t mpirun_ = 0;
  std::optional<int> mpirun_code_;
  std::vector<Reported> reports_;
  bool lost_ = false, stopping_ = false, finishing_ = false;
};

}  // namespace

std::optional<Reported> at_fault(const std::vector<Reported>& reports, bool lost, int code_of_mpirun) {
  if (lost) return std::nullopt;
  // MPI's libraries abort a process whose peer is lost. The end of the aborted process may be reported before
  // the end of the peer itself, so aborted processes are considered last.
  const auto first = [&](auto&& wanted) -> std::optional<Reported> {
    for (const bool aborted : {false, true}) {
      for (const Reported& each : reports) {
        if ((each.end.code == 128 + SIGABRT) == aborted && wanted(each.end)) return each;
      }
    }
    return std::nullopt;
  };
  if (const auto untold = first([](const End& end) { return !end.told; })) return untold;
  // After MPI_Abort, mpirun ends all processes, even the process that called MPI_Abort. Only the calling
  // process has an exit code of its own, so it is at fault.
  const auto own_code = [](const End& end) { return end.code != 128 + SIGTERM && end.code != 128 + SIGKILL; };
  if (const auto caller = first(own_code)) return caller;
  return Reported{0,
                  {.rank = 0, .code = static_cast<std::uint8_t>(code_of_mpirun == 0 ? 1 : code_of_mpirun)}};
}

int launch(const PodEnvironment& environment, const std::vector<std::string>& program,
           const std::string& self) {
  std::string mpirun;
  const std::string version = version_of_mpirun(mpirun);
  if (mpirun.empty()) give_up(not_there, "the image has neither mpirun nor mpiexec in its PATH");
  const std::optional<Flavour> flavour = flavour_of(version);
  if (!flavour)
    give_up(not_usable,
            mpirun + " is neither Open MPI's nor MPICH's: `" + mpirun + " --version` names neither");
  const pid_t own = ::getpid(), agent = ::fork();
  if (agent < 0) give_up(gave_up, std::string("cannot start a process: ") + std::strerror(errno));
  if (agent == 0) {
    end_with(own);
    ::_exit(serve(environment, program));
  }
  const std::string hosts = environment.folder + "/hosts";
  write_file(hosts, host_file(*flavour, environment));
  if (environment.on_one_machine()) {
    const std::string folder = environment.folder + "/mpirun";
    ::mkdir(folder.c_str(), 0700);
    ::setenv("TMPDIR", folder.c_str(), 1);
  }
  return Launcher(environment, mpirun_words(*flavour, mpirun, hosts, environment, self), agent).run();
}

}  // namespace mlk::mpi
