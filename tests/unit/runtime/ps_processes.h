// Whole processes of a run with parameter servers, over real connections on loopback. Each process under test
// runs in a thread, and the test plays the other processes.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <future>
#include <memory>
#include <netinet/in.h>
#include <optional>
#include <pthread.h>
#include <span>
#include <sstream>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/membership/peers.h"
#include "runtime/ps/machines/protocol.h"
#include "runtime/ps/server.h"
#include "runtime/ps/worker.h"
#include "tests/unit/runtime/idx_files.h"

namespace mlk::test {

using Numbers = std::vector<float>;

inline constexpr std::chrono::seconds process_patience{60};

inline const std::string& key_of_run() {
  static const std::string key(64, 'b');
  return key;
}

// Reserves a port while this object lives: no other program gets the port, but a process under test may
// listen at it.
class FreeAddress {
 public:
  FreeAddress() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(fd_, generic, size) == 0);
    REQUIRE(::getsockname(fd_, generic, &size) == 0);
    text_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~FreeAddress() { ::close(fd_); }
  FreeAddress(const FreeAddress&) = delete;
  FreeAddress& operator=(const FreeAddress&) = delete;

  const std::string& text() const { return text_; }

 private:
  int fd_;
  std::string text_;
};

// How a process ended: the exit code that it returned, or the failure that it threw.
struct ProcessEnd {
  rt::ExitCode code = rt::ExitCode::internal_error;
  std::string failure;

  bool operator==(const ProcessEnd&) const = default;
};

inline doctest::String toString(const ProcessEnd& end) {
  return (std::to_string(static_cast<int>(end.code)) + " " + end.failure).c_str();
}

// A process under test. Environment and configuration may be changed until start().
class PsProcess {
 public:
  PsProcess(rt::PeerId self, int workers, int servers) : self_(self) {
    write_file(folder_ / "key", key_of_run());
    env.run = "run";
    env.role = self.role == rt::Role::worker ? "worker" : "server";
    env.rank = static_cast<int>(self.rank);
    env.address = address_.text();
    env.secret_path = folder_ / "key";
    env.incarnation = "first";
    env.result = folder_ / "result";
    if (self.role == rt::Role::worker) {
      write_learnable(folder_.path());
      env.data = folder_.path().string();
    }
    config.mode = rt::Mode::ps;
    config.model.hidden = {8};
    config.workers = {workers, 1};
    config.servers = {servers};
    config.patience_seconds = 900;
    config.steps = 100;
    config.seed = 1;
    config.data.batch = 4;
    config.optimizer.lr = 0.5;
  }
  ~PsProcess() {
    if (!thread_.joinable()) return;
    request_stop();
    thread_.join();
  }
  PsProcess(const PsProcess&) = delete;
  PsProcess& operator=(const PsProcess&) = delete;

  rt::LaunchEnv env;
  rt::Config config;

  rt::PeerId self() const { return self_; }
  const std::string& address() const { return env.address; }
  std::string file(const std::string& name) const { return folder_ / name; }

  void start() {
    stop_ = std::make_unique<rt::StopSignal>();
    std::promise<ProcessEnd> promise;
    ended_ = promise.get_future();
    thread_ = std::thread([this, promise = std::move(promise)]() mutable { promise.set_value(run()); });
  }

  // Sends SIGTERM to the thread of this process only.
  void request_stop() { pthread_kill(thread_.native_handle(), SIGTERM); }

  // Waits until the process ends by itself.
  ProcessEnd end() {
    const bool in_time = ended_.wait_for(process_patience) == std::future_status::ready;
    CHECK(in_time);
    if (!in_time) request_stop();
    thread_.join();
    return ended_.get();
  }

  // To be called after end().
  std::string metrics() const { return metrics_.str(); }
  std::string result() const { return read_file(env.result); }
  std::string log() const { return read_file(folder_ / "log"); }
  bool has_logged(const std::string& line) const {
    return log().find(env.role + ": " + line + "\n") != std::string::npos;
  }

 private:
  ProcessEnd run() {
    const int fd = ::open((folder_ / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const rt::Log log(env.role, fd);
    rt::Reporter reporter(metrics_, env.result, env.rank);
    rt::Job job{env, config, *stop_, reporter, log};
    ProcessEnd end;
    try {
      end.code = self_.role == rt::Role::worker ? run_ps_worker(job) : run_ps_server(job);
    } catch (const rt::Failure& failure) {
      end = {failure.code, failure.what()};
    }
    ::close(fd);
    return end;
  }

  const rt::PeerId self_;
  FreeAddress address_;
  TemporaryFolder folder_;
  std::ostringstream metrics_;
  std::unique_ptr<rt::StopSignal> stop_;
  std::future<ProcessEnd> ended_;
  std::thread thread_;
};

// A process that the test plays. It connects only with the process under test.
class PlayedProcess {
 public:
  explicit PlayedProcess(rt::PeerId self, const std::string& address = "127.0.0.1:0",
                         std::uint64_t incarnation = 1)
      : incarnation_(incarnation),
        transport_(std::make_unique<rt::Transport>(rt::Identity{"run", self, incarnation, address},
                                                   rt::parse_key(key_of_run()), rt::TransportOptions(),
                                                   [](std::string_view) {})) {}

  std::string address() const { return transport_->address(); }
  std::uint64_t incarnation() const { return incarnation_; }

  // Returns when the connection is up.
  void dial(const PsProcess& process) {
    transport_->dial(process.self(), process.address());
    await_up(process.self());
  }
  void await_up(rt::PeerId peer) {
    const rt::Event event = next();
    REQUIRE(event.kind == rt::Event::Kind::up);
    REQUIRE(event.peer == peer);
    other_ = peer;
  }

  void say(const rt::Header& header, std::span<const std::byte> payload = {}) {
    REQUIRE(transport_->send(other_, header, payload));
  }
  void say(rt::MessageType type, std::uint64_t clock = 0, std::uint32_t key = 0, std::uint8_t flags = 0,
           std::uint64_t offset = 0, std::span<const std::byte> payload = {}) {
    rt::Header header;
    header.type = type;
    header.clock = clock;
    header.key = key;
    header.flags = flags;
    header.offset = offset;
    header.generation = generation;
    say(header, payload);
  }
  void say_floats(rt::Header header, std::span<const float> floats) {
    header.data_type = rt::DataType::float32;
    header.generation = generation;
    say(header, std::as_bytes(floats));
  }
  std::uint64_t generation = 0;  // in the headers of its messages

  // Returns the next message, which must be of this type. Skips wait messages, which may come at any time,
  // unless `type` is wait.
  rt::Event hear(rt::MessageType type) {
    const rt::Event event = next(type == rt::MessageType::wait);
    INFO("heard " << static_cast<int>(event.header.type) << " instead of " << static_cast<int>(type));
    REQUIRE(event.kind == rt::Event::Kind::message);
    REQUIRE(event.header.type == type);
    return event;
  }
  Numbers hear_floats(rt::MessageType type, rt::Header* header = nullptr) {
    const rt::Event event = hear(type);
    if (header) *header = event.header;
    CHECK(event.header.data_type == rt::DataType::float32);
    const auto* floats = reinterpret_cast<const float*>(event.payload.data());
    return {floats, floats + event.payload.size() / sizeof(float)};
  }
  void hear_goodbye(rt::ExitCode code) {
    const rt::Event event = next();
    INFO("heard " << static_cast<int>(event.header.type));
    REQUIRE(event.kind == rt::Event::Kind::goodbye);
    CHECK(event.header.clock == static_cast<std::uint64_t>(code));
  }
  void hear_down() { REQUIRE(next().kind == rt::Event::Kind::down); }

  void end(rt::ExitCode code) { transport_->send_goodbye(static_cast<int>(code)); }

  rt::Transport& transport() { return *transport_; }

 private:
  rt::Event next(bool waits = false) {
    const auto deadline = std::chrono::steady_clock::now() + process_patience;
    while (true) {
      auto event = transport_->receive(deadline);
      REQUIRE(event);
      if (event->kind == rt::Event::Kind::room || event->kind == rt::Event::Kind::silent ||
          event->kind == rt::Event::Kind::audible)
        continue;
      const bool idle = event->kind == rt::Event::Kind::message &&
                        event->header.type == rt::MessageType::wait &&
                        (event->header.flags & rt::flag_rejoin) == 0;
      if (!idle || waits) return std::move(*event);
    }
  }

  const std::uint64_t incarnation_;
  std::unique_ptr<rt::Transport> transport_;
  rt::PeerId other_;
};

}  // namespace mlk::test
