#include "pod/mpi/agent.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "pod/mpi/children.h"

namespace mlk::mpi {
namespace {

constexpr std::size_t most_peers = 512;          // processes (64 at most), commands and unauthenticated peers
constexpr std::int64_t time_to_drain_ms = 1000;  // to send the last output of an ended command
constexpr std::size_t most_waiting_output = 1 << 18;
constexpr int stopped_by_sigterm = 143;

struct Pipe {
  int fd = -1;
  std::byte stream{};
};

struct Peer {
  explicit Peer(int fd, std::string_view key) : link(fd, Session::Side::server, key) {}

  Link link;
  std::optional<Type> kind{};  // the type of the first frame of this peer
  bool gone = false;
  // The next members are only for a command.
  pid_t pid = 0;
  Pipe pipes[2];
  std::optional<int> ended{};
  std::int64_t ended_at = 0;
  // The next member is only for a process.
  std::uint32_t rank = 0;
};

class Agent {
 public:
  Agent(const PodEnvironment& environment, const std::vector<std::string>& program)
      : environment_(environment),
        program_(program),
        signals_(take_signals()),
        listener_(listen_at(environment.own)) {}

  int run() {
    while (!code_) {
      wait();
      end_what_is_over();
    }
    for (Peer& peer : peers_) (void)peer.link.flush();
    kill_descendants();
    return *code_;
  }

 private:
  void wait() {
    std::vector<pollfd> fds{{signals_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const Peer& peer : peers_) {
      fds.push_back({peer.link.fd(), peer.link.events(), 0});
      // If the other end reads too slowly, the agent stops reading the pipe, and the bytes stay in the pipe.
      const bool full = peer.link.session().output().size() > most_waiting_output;
      for (const Pipe& pipe : peer.pipes) fds.push_back({full ? -1 : pipe.fd, POLLIN, 0});
    }
    const std::size_t polled = peers_.size();
    if (::poll(fds.data(), fds.size(), 500) < 0) return;
    if (fds[0].revents != 0) handle_signals();
    for (std::size_t i = 0; i < polled; ++i) {
      const pollfd* of_peer = &fds[2 + 3 * i];
      Peer& peer = peers_[i];
      if (of_peer[0].revents != 0) {
        if (!peer.link.work(of_peer[0].revents)) peer.gone = true;
        while (std::optional<Frame> frame = peer.link.session().next()) on_frame(peer, *frame);
        if (peer.link.session().broken()) peer.gone = true;
      }
      for (int k = 0; k < 2; ++k) {
        if (of_peer[1 + k].revents != 0) pump(peer, peer.pipes[k]);
      }
    }
    if (fds[1].revents != 0) accept_one();
  }

  void accept_one() {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    if (peers_.size() >= most_peers) {  // closes the oldest unauthenticated connection
      const auto stranger = std::find_if(peers_.begin(), peers_.end(),
                                         [](const Peer& peer) { return !peer.link.session().ready(); });
      if (stranger == peers_.end()) {
        ::close(fd);
        return;
      }
      peers_.erase(stranger);
    }
    peers_.emplace_back(fd, environment_.key);
    (void)peers_.back().link.flush();
  }

  void handle_signals() {
    const Arrived news = read_signals(signals_);
    if (news.stop && stop_at_ == 0) stop();
    if (!news.child) return;
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      for (Peer& peer : peers_) {
        if (peer.pid != pid) continue;
        peer.ended = code_of(status);
        peer.ended_at = now_ms();
        // Reports the failed start to the launcher, because MPICH itself would wait for ever.
        if (*peer.ended == 126 || *peer.ended == 127) {
          log("a part of MPI that mpirun starts here is not there, or cannot be run");
          report_to_launcher({.code = static_cast<std::uint8_t>(*peer.ended)});
        }
      }
    }
  }

  // Tells the launcher that the pod stops, and sends SIGTERM to the program, which then has time for a last
  // checkpoint.
  void stop() {
    stop_at_ = now_ms() + environment_.time_to_stop_ms;
    const std::byte signal{SIGTERM};
    for (Peer& peer : peers_) {
      if (peer.kind == Type::process) peer.link.session().send(Type::signal, std::span(&signal, 1));
      if (peer.kind == Type::lead) peer.link.session().send(Type::stopping);
    }
  }

  void on_frame(Peer& peer, const Frame& frame) {
    if (!peer.kind) {
      peer.kind = frame.type;
      if (frame.type == Type::lead) return lead(peer);
      if (frame.type == Type::run) return start(peer, std::string(text_of(frame.payload)));
      if (frame.type == Type::process) return begin(peer, frame);
      peer.gone = true;
      return;
    }
    if (peer.kind == Type::lead && frame.type == Type::finish && frame.payload.size() == 1) {
      peer.link.session().send(Type::finish, frame.payload);
      code_ = std::to_integer<int>(frame.payload[0]);
      if (*code_ != 0) say_what_failed();
    } else if (peer.kind == Type::process && frame.type == Type::ended) {
      if (const std::optional<End> end = decode_end(frame.payload)) ended(*end);
      peer.link.session().send(Type::ended);  // acknowledges the end: the process waits for this
    } else {
      peer.gone = true;
    }
  }

  // The newest launcher controls the agent, so the connection of an older launcher is closed.
  void lead(Peer& peer) {
    for (Peer& other : peers_) {
      if (&other != &peer && other.kind == Type::lead) other.gone = true;
    }
    if (led_) end_attempt();
    led_ = true;
    failed_.reset();
    peer.link.session().send(Type::lead);
    if (stop_at_ != 0) peer.link.session().send(Type::stopping);
  }

  void start(Peer& peer, const std::string& command) {
    int pipes[2][2];
    if (::pipe2(pipes[0], O_CLOEXEC) != 0 || ::pipe2(pipes[1], O_CLOEXEC) != 0) {
      peer.gone = true;
      return;
    }
    peer.pid = spawn({"/bin/sh", "-c", command}, pipes[0][1], pipes[1][1]);
    for (int k = 0; k < 2; ++k) {
      ::close(pipes[k][1]);
      peer.pipes[k] = {pipes[k][0], std::byte(k + 1)};
    }
    if (peer.pid < 0) peer.ended = gave_up;
  }

  void begin(Peer& peer, const Frame& frame) {
    const std::optional<End> end = decode_end(frame.payload);
    if (!end) {
      peer.gone = true;
      return;
    }
    peer.rank = end->rank;
    char folder[4096];
    if (::getcwd(folder, sizeof folder) == nullptr) std::strcpy(folder, "/");
    peer.link.session().send(Type::program, encode(Program{.agent = static_cast<std::uint32_t>(::getpid()),
                                                           .folder = folder,
                                                           .words = program_}));
    if (stop_at_ == 0) return;
    const std::byte signal{SIGTERM};
    peer.link.session().send(Type::signal, std::span(&signal, 1));
  }

  void ended(const End& end) {
    if (end.code == 0) return;
    if (!failed_ || (failed_->told && !end.told)) failed_ = end;
    report_to_launcher(end);
  }

  // Prints the last line of the log. mlk reads from this line why the pod has failed.
  void say_what_failed() const {
    if (!failed_) return;
    std::string text = "rank " + number(failed_->rank) + " of MPI ";
    text += failed_->code > 128 ? "was ended by signal " + number(failed_->code - 128)
                                : "ended with exit code " + number(failed_->code);
    log(text);
  }

  void report_to_launcher(const End& end) {
    for (Peer& peer : peers_) {
      if (peer.kind == Type::lead) peer.link.session().send(Type::failed, encode(end));
    }
  }

  void pump(Peer& peer, Pipe& pipe) {
    std::byte buffer[16384];
    const ssize_t size = ::read(pipe.fd, buffer + 1, sizeof buffer - 1);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) {
      ::close(std::exchange(pipe.fd, -1));
      return;
    }
    buffer[0] = pipe.stream;
    peer.link.session().send(Type::output, std::span(buffer, static_cast<std::size_t>(size) + 1));
  }

  void end_what_is_over() {
    const std::int64_t now = now_ms();
    bool leader_gone = false, processes = false;
    for (Peer& peer : peers_) {
      if (!peer.kind && now - peer.link.since() > environment_.time_to_prove_ms) peer.gone = true;
      const bool drained = peer.pipes[0].fd < 0 && peer.pipes[1].fd < 0;
      if (peer.ended && (drained || now - peer.ended_at > time_to_drain_ms)) {
        peer.link.session().send(Type::ended, encode(End{.code = static_cast<std::uint8_t>(*peer.ended)}));
        (void)peer.link.flush();
        peer.gone = true;
      }
      if (!peer.link.session().output().empty() && !peer.link.flush()) peer.gone = true;
      if (peer.gone && peer.pid > 0 && !peer.ended) ::kill(-peer.pid, SIGKILL);
      if (peer.gone) {
        leader_gone = leader_gone || peer.kind == Type::lead;
        for (Pipe& pipe : peer.pipes) {
          if (pipe.fd >= 0) ::close(std::exchange(pipe.fd, -1));
        }
      }
      processes = processes || (!peer.gone && peer.kind == Type::process);
    }
    std::erase_if(peers_, [](const Peer& peer) { return peer.gone; });
    const bool led =
        std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.kind == Type::lead; });
    if (leader_gone && !led) {
      led_ = false;
      end_attempt();
    }
    if (led) last_led_ = now;
    if (stop_at_ != 0 && (!processes || now > stop_at_)) code_ = code_.value_or(stopped_by_sigterm);
    if (now - last_led_ > environment_.patience_ms && !code_) {
      log("no launcher has come: " + environment_.role + "/0 is not there");
      code_ = gave_up;
    }
  }

  // Ends all processes of an attempt before the next attempt begins.
  void end_attempt() {
    kill_descendants();
    for (Peer& peer : peers_) {
      if (peer.kind == Type::run || peer.kind == Type::process) peer.gone = true;
    }
  }

  const PodEnvironment& environment_;
  const std::vector<std::string>& program_;
  const int signals_, listener_;
  std::vector<Peer> peers_;
  std::optional<int> code_;
  std::optional<End> failed_;  // the first failed process; a process that was not asked to end has priority
  bool led_ = false;
  std::int64_t stop_at_ = 0, last_led_ = now_ms();
};

}  // namespace

int serve(const PodEnvironment& environment, const std::vector<std::string>& program) {
  return Agent(environment, program).run();
}

}  // namespace mlk::mpi
