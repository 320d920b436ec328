// Helpers for tests that run parts of mlk-mpi in processes, and play the other ends of the connections.
#pragma once

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "pod/mpi/agent.h"
#include "pod/mpi/children.h"
#include "pod/mpi/link.h"

namespace mlk::mpi {

inline constexpr char test_key[] = "0123456789abcdef0123456789abcdef";
inline constexpr int patience_of_tests_ms = 20000;

// True as soon as `holds` returns true; false after 20 s.
inline bool in_time(const std::function<bool()>& holds) {
  for (const std::int64_t until = now_ms() + patience_of_tests_ms; !holds(); ::usleep(5000)) {
    if (now_ms() > until) return false;
  }
  return true;
}

// Runs a function in a process of its own, and stores the outputs of the process. The destructor kills the
// process if it still runs.
class Child {
 public:
  explicit Child(const std::function<int()>& program) {
    for (int& fd : outputs_) {
      fd = ::memfd_create("output", MFD_CLOEXEC);
      // The position of a file is not locked, so concurrent writes of two processes would overwrite each
      // other.
      REQUIRE(::fcntl(fd, F_SETFL, O_APPEND) == 0);
    }
    int begun[2];
    REQUIRE(::pipe2(begun, O_CLOEXEC) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      for (int k = 0; k < 2; ++k) ::dup2(outputs_[k], k + 1);
      // doctest has handlers of its own for these signals.
      for (const int number : {SIGTERM, SIGINT, SIGSEGV, SIGABRT}) ::signal(number, SIG_DFL);
      ::close(begun[0]);
      ::close(begun[1]);
      ::_exit(program());
    }
    ::close(begun[1]);
    char none;
    while (::read(begun[0], &none, 1) > 0) {
    }
    ::close(begun[0]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (!code_) {
      signal(SIGKILL);
      (void)code();
    }
    for (const int fd : outputs_) ::close(fd);
  }

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  bool runs() { return !ended(); }

  // The exit code, as in a shell. Waits for the end of the process.
  int code() {
    if (!in_time([this] { return ended(); })) {
      ::kill(pid_, SIGKILL);
      FAIL("a process has not ended: " << err());
    }
    return *code_;
  }

  std::string out() const { return text_of_file(outputs_[0]); }
  std::string err() const { return text_of_file(outputs_[1]); }

 private:
  bool ended() {
    int status = 0;
    if (!code_ && ::waitpid(pid_, &status, WNOHANG) == pid_) code_ = code_of(status);
    return code_.has_value();
  }

  static std::string text_of_file(int fd) {
    std::string text(1 << 16, '\0');
    const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
  }

  int outputs_[2];
  pid_t pid_ = 0;
  std::optional<int> code_;
};

// The settings of the first of `count` pods on this machine. No other test uses the addresses of these pods
// at the same time.
inline PodEnvironment pods(int count) {
  static int used = 0;
  PodEnvironment environment;
  environment.key = test_key;
  environment.patience_ms = patience_of_tests_ms;
  for (int pod = 0; pod < count; ++pod) {
    const pid_t own = ::getpid();
    const std::string host =
        "127." + number(64 + own / 250 % 128) + "." + number(own % 250 + 1) + "." + number(++used % 250 + 1);
    environment.all.push_back({host, "7070"});
  }
  environment.own = environment.all.front();
  return environment;
}

inline PodEnvironment seen_by(PodEnvironment environment, std::size_t pod) {
  environment.own = environment.all[pod];
  environment.rank = number(static_cast<long long>(pod));
  return environment;
}

// Connects to the address as soon as a process listens there.
inline Link reach(const Address& where) {
  std::optional<Link> link;
  REQUIRE(in_time([&] {
    link = connect_to(where, test_key, 1000);
    return link && wait_until_ready(*link, 5000);
  }));
  return std::move(*link);
}

// The next frame of the other end as text: its type and its values. "closed" at the end of the connection,
// "silence" after the timeout.
inline std::string said_by(const Frame& frame) {
  const auto byte = [&](std::size_t at) { return number(std::to_integer<int>(frame.payload.at(at))); };
  const auto end = [&](const char* name) {
    const std::optional<End> one = decode_end(frame.payload);
    if (!one) return std::string(name);
    return std::string(name) + " " + number(one->rank) + " " + number(one->code) + (one->told ? " told" : "");
  };
  switch (frame.type) {
    case Type::lead:
      return "lead";
    case Type::run:
      return "run " + std::string(text_of(frame.payload));
    case Type::process:
      return end("process");
    case Type::output:
      return "output " + byte(0) + " " + std::string(text_of(frame.payload).substr(1));
    case Type::ended:
      return end("ended");
    case Type::program: {
      const std::optional<Program> program = decode_program(frame.payload);
      if (!program) return "program";
      std::string text = "program " + number(program->agent) + " " + program->folder;
      for (const std::string& word : program->words) text += " " + word;
      return text;
    }
    case Type::failed:
      return end("failed");
    case Type::stopping:
      return "stopping";
    case Type::finish:
      return "finish " + byte(0);
    case Type::signal:
      return "signal " + byte(0);
  }
  return "unknown";
}

inline std::string next_of(Link& link, int timeout_ms = patience_of_tests_ms) {
  const std::int64_t until = now_ms() + timeout_ms;
  for (bool open = true;;) {
    if (const std::optional<Frame> frame = link.session().next()) return said_by(*frame);
    if (!open) return "closed";
    pollfd wait{.fd = link.fd(), .events = link.events(), .revents = 0};
    const std::int64_t left = until - now_ms();
    if (left <= 0) return "silence";
    if (::poll(&wait, 1, static_cast<int>(left)) == 1) open = link.work(wait.revents);
  }
}

// Whether the connection ends. Skips frames that were already on their way.
inline bool closes(Link& link) {
  std::string said = next_of(link);
  while (said != "closed" && said != "silence") said = next_of(link);
  return said == "closed";
}

inline void say_to(Link& link, Type type, std::span<const std::byte> payload = {}) {
  link.session().send(type, payload);
  REQUIRE(in_time([&] { return !link.flush() || link.session().output().empty(); }));
}

inline void say_to(Link& link, Type type, std::uint8_t byte) {
  const std::byte payload{byte};
  say_to(link, type, std::span(&payload, 1));
}

// The number of open descriptors of a process. For the calling process the number includes the descriptors of
// this check.
inline long descriptors(pid_t pid) {
  const std::filesystem::directory_iterator folder("/proc/" + number(pid) + "/fd");
  return std::distance(begin(folder), end(folder));
}

// A shell command that prints the open descriptors other than 0, 1 and 2, and then a newline.
inline constexpr char tell_descriptors[] =
    "n=3; while [ $n -lt 64 ]; do if [ -e /proc/$$/fd/$n ]; then printf '%s ' $n; fi; n=$((n + 1)); done; "
    "echo";

// The bits of a set of signals, such as "SigBlk", in the text of /proc/PID/status.
inline unsigned long long signals_of(const std::string& status, const std::string& set) {
  const std::size_t at = status.find(set + ":");
  REQUIRE(at != status.npos);
  return std::stoull(status.substr(at + set.size() + 1), nullptr, 16);
}
inline bool has_signal(unsigned long long set, int signal) { return (set >> (signal - 1) & 1) != 0; }

// Whether a process neither blocks nor ignores the signals that mlk-mpi itself blocks or ignores.
inline bool hears_our_signals(const std::string& status) {
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) {
    if (has_signal(signals_of(status, "SigBlk"), signal)) return false;
  }
  return !has_signal(signals_of(status, "SigIgn"), SIGPIPE);
}

inline bool is_alive(pid_t pid) {
  std::ifstream file("/proc/" + number(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(") ");
  return name_end != text.npos && text[name_end + 2] != 'Z';
}

}  // namespace mlk::mpi
