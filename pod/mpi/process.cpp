#include "pod/mpi/process.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pod/mpi/children.h"

namespace mlk::mpi {
namespace {

constexpr int no_agent = 126, time_to_answer_ms = 20000;

std::uint32_t rank_of_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* value = std::getenv(name))
      return static_cast<std::uint32_t>(parse_number(value).value_or(0));
  }
  return 0;
}

std::optional<Program> ask_for_program(Link& link, std::uint32_t rank) {
  link.session().send(Type::process, encode(End{.rank = rank}));
  const std::int64_t until = now_ms() + time_to_answer_ms;
  while (link.flush() && now_ms() < until) {
    const bool open = link.wait(time_to_answer_ms);
    if (const std::optional<Frame> frame = link.session().next())
      return frame->type == Type::program ? decode_program(frame->payload) : std::nullopt;
    if (!open) break;
  }
  return std::nullopt;
}

// Makes the program write to the log of the pod. If this log cannot be opened, mpirun sends the output to the
// log of rank 0.
void write_to_log_of(std::uint32_t agent) {
  for (const int fd : {1, 2}) {
    const std::string path = "/proc/" + number(agent) + "/fd/" + number(fd);
    const int log = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
    if (log >= 0) ::dup2(log, fd);
    if (log >= 0) ::close(log);
  }
}

// On one machine, gives each pod its own folder for the files of Open MPI's shared memory. Otherwise the pods
// would share these files, since their names differ only by host.
void keep_apart(const PodEnvironment& environment) {
  if (!environment.on_one_machine()) return;
  ::setenv("OMPI_MCA_btl_vader_backing_directory", environment.folder.c_str(), 0);
  ::setenv("OMPI_MCA_btl_sm_backing_directory", environment.folder.c_str(), 0);
}

[[noreturn]] void become(const Program& program, pid_t parent) {
  end_with(parent);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  std::vector<char*> argv;
  for (const std::string& word : program.words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  give_up(errno == ENOENT ? 127 : 126, program.words[0] + ": " + std::strerror(errno));
}

class Process {
 public:
  Process(Link& link, std::uint32_t rank, pid_t child) : link_(link), child_(child) { end_.rank = rank; }

  int run(int signals) {
    hear(0);  // reads frames that arrived together with the program
    while (true) {
      pollfd fds[2] = {{signals, POLLIN, 0}, {link_.fd(), link_.events(), 0}};
      if (::poll(fds, 2, -1) < 0) continue;
      if (fds[1].revents != 0) hear(fds[1].revents);
      const Arrived news = read_signals(signals);
      if (news.stop) send_signal(SIGTERM);
      int status = 0;
      if (::waitpid(child_, &status, WNOHANG) == child_) {
        end_.code = static_cast<std::uint8_t>(code_of(status));
        report();
        return end_.code;
      }
    }
  }

 private:
  void hear(short events) {
    const bool open = link_.work(events);
    while (const std::optional<Frame> frame = link_.session().next()) {
      if (frame->type == Type::signal && frame->payload.size() == 1)
        send_signal(std::to_integer<int>(frame->payload[0]));
    }
    if (open && !link_.session().broken()) return;
    send_signal(SIGKILL);  // without the agent, no other process would end the program
    int status = 0;
    ::waitpid(child_, &status, 0);
    ::_exit(no_agent);
  }

  void send_signal(int signal) {
    end_.told = true;
    ::kill(child_, signal);
  }

  // Reports the end to the agent before this process ends: as soon as this process ends, mpirun ends the
  // other processes.
  void report() {
    link_.session().send(Type::ended, encode(end_));
    const std::int64_t until = now_ms() + time_to_answer_ms;
    while (link_.flush() && now_ms() < until) {
      const bool open = link_.wait(time_to_answer_ms);
      while (const std::optional<Frame> frame = link_.session().next()) {
        if (frame->type == Type::ended) return;
      }
      if (!open) return;
    }
  }

  Link& link_;
  const pid_t child_;
  End end_;
};

}  // namespace

int run_process(const PodEnvironment& environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // when the parent (orted, or MPICH's proxy) ends
  const std::uint32_t rank = rank_of_environment();
  std::optional<Link> link = connect_to(environment.own, environment.key, time_to_answer_ms);
  if (!link || !wait_until_ready(*link, time_to_answer_ms))
    give_up(no_agent, "the agent of this pod does not answer");
  const std::optional<Program> program = ask_for_program(*link, rank);
  if (!program) give_up(no_agent, "the agent of this pod says no program");
  if (::chdir(program->folder.c_str()) != 0) give_up(no_agent, program->folder + ": " + std::strerror(errno));
  write_to_log_of(program->agent);
  keep_apart(environment);
  const int signals = take_signals();
  const pid_t own = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) become(*program, own);
  if (child < 0) give_up(no_agent, std::string("cannot start a process: ") + std::strerror(errno));
  return Process(*link, rank, child).run(signals);
}

}  // namespace mlk::mpi
