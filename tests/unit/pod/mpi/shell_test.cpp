// Checks the remote shell of mpirun. The test plays the agent of the other pod.
#include "pod/mpi/shell.h"

#include <sys/ioctl.h>

#include <doctest/doctest.h>

#include "tests/unit/pod/mpi/played.h"

TEST_SUITE_BEGIN("pod/mpi/shell");

namespace mlk::mpi {
namespace {

constexpr int lost = 255;

Link accepted(int listener) {
  pollfd wait{.fd = listener, .events = POLLIN, .revents = 0};
  REQUIRE(::poll(&wait, 1, patience_of_tests_ms) == 1);
  return {::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK), Session::Side::server,
          test_key};
}

Bytes output_of(int stream, std::string_view text) {
  Bytes payload{static_cast<std::byte>(stream)};
  payload.insert(payload.end(), bytes_of(text).begin(), bytes_of(text).end());
  return payload;
}

// A full pipe to which a shell writes. The test has the read end.
struct FullPipe {
  explicit FullPipe(const PodEnvironment& environment) : listener(listen_at(environment.own)) {
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    REQUIRE(::fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    shell.emplace([&] {
      ::dup2(ends[1], 1);
      return run_remotely(environment, environment.own.host, "true");
    });
    ::close(ends[1]);
    link.emplace(accepted(listener));
    CHECK(next_of(*link) == "run true");
    for (int i = 0; i < 20; ++i) {
      said += std::string(8192, static_cast<char>('a' + i));
      say_to(*link, Type::output, output_of(1, std::string_view(said).substr(said.size() - 8192)));
    }
    CHECK(in_time([&] {
      int bytes = 0;
      return ::ioctl(ends[0], FIONREAD, &bytes) == 0 && bytes == ::fcntl(ends[0], F_GETPIPE_SZ);
    }));
  }
  ~FullPipe() {
    ::close(ends[0]);
    ::close(listener);
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;

  // Reads until the shell has ended.
  std::string read() const {
    std::string out;
    char buffer[4096];
    pollfd wait{.fd = ends[0], .events = POLLIN, .revents = 0};
    while (::poll(&wait, 1, patience_of_tests_ms) == 1) {
      const ssize_t size = ::read(ends[0], buffer, sizeof buffer);
      if (size <= 0) break;
      out.append(buffer, static_cast<std::size_t>(size));
    }
    return out;
  }

  const int listener;
  int ends[2];
  std::string said;
  std::optional<Child> shell;
  std::optional<Link> link;
};

TEST_CASE("the shell writes both outputs of a remote command, and ends with the command's exit code") {
  const PodEnvironment environment = pods(2);
  const int listener = listen_at(environment.all[1]);
  Child shell([&] { return run_remotely(environment, environment.all[1].host, "orted --some words"); });
  Link link = accepted(listener);
  CHECK(next_of(link) == "run orted --some words");
  say_to(link, Type::output, output_of(1, "out\n"));
  say_to(link, Type::output, output_of(2, "err\n"));
  say_to(link, Type::output, output_of(1, "more\n"));
  say_to(link, Type::output);
  say_to(link, Type::ended, encode(End{.code = 7}));
  CHECK(shell.code() == 7);
  CHECK(shell.out() == "out\nmore\n");
  CHECK(shell.err() == "err\n");
  ::close(listener);
}

TEST_CASE("the shell writes all bytes to a non-blocking output, even if the reader pauses") {
  const PodEnvironment environment = pods(1);
  FullPipe pipe(environment);
  say_to(*pipe.link, Type::ended, encode(End{.code = 0}));
  CHECK(pipe.read() == pipe.said);
  CHECK(pipe.shell->code() == 0);
}

TEST_CASE("the shell drops an output that nobody reads, and still writes the other output") {
  PodEnvironment environment = pods(1);
  CHECK(environment.time_to_be_read_ms == 60000);
  environment.time_to_be_read_ms = 300;
  FullPipe pipe(environment);
  say_to(*pipe.link, Type::output, output_of(2, "err\n"));
  say_to(*pipe.link, Type::ended, encode(End{.code = 3}));
  CHECK(pipe.shell->code() == 3);
  CHECK(pipe.shell->err() ==
        "mlk: output of " + environment.own.host + " is dropped from here on: nobody reads it\nerr\n");
  CHECK(pipe.read().size() < pipe.said.size());
}

TEST_CASE("the shell ends with 255 if the frame `ended` has no exit code of the command") {
  const PodEnvironment environment = pods(1);
  const int listener = listen_at(environment.own);
  Child shell([&] { return run_remotely(environment, environment.own.host, "true"); });
  Link link = accepted(listener);
  CHECK(next_of(link) == "run true");
  say_to(link, Type::ended);
  CHECK(shell.code() == lost);
  ::close(listener);
}

TEST_CASE("the shell prints the reason and ends with 255 if a command cannot be run or is lost") {
  const PodEnvironment environment = pods(1);
  const std::string host = environment.own.host;
  SUBCASE("the host is not in this run") {
    Child shell([&] { return run_remotely(environment, "elsewhere", "true"); });
    CHECK(shell.code() == lost);
    CHECK(shell.err() == "mlk: elsewhere is no host of this run\n");
  }
  SUBCASE("no agent answers") {
    Child shell([&] { return run_remotely(environment, host, "true"); });
    CHECK(shell.code() == lost);
    CHECK(shell.err() == "mlk: " + host + " does not answer with the run's key\n");
  }
  SUBCASE("the command is too long") {
    const int listener = listen_at(environment.own);
    Child shell([&] { return run_remotely(environment, host, std::string(most_payload + 1, 'x')); });
    Link link = accepted(listener);
    CHECK(next_of(link) == "closed");
    CHECK(shell.code() == lost);
    CHECK(shell.err() == "mlk: the command for " + host + " is too long\n");
    ::close(listener);
  }
  SUBCASE("the agent closes the connection") {
    const int listener = listen_at(environment.own);
    Child shell([&] { return run_remotely(environment, host, "sleep 100"); });
    {
      Link link = accepted(listener);
      CHECK(next_of(link) == "run sleep 100");
    }
    CHECK(shell.code() == lost);
    CHECK(shell.err() == "mlk: " + host + " was lost\n");
    ::close(listener);
  }
}

TEST_CASE("the agent receives a command of the largest allowed length unchanged") {
  const PodEnvironment environment = pods(1);
  const int listener = listen_at(environment.own);
  const std::string command(most_payload, 'x');
  Child shell([&] { return run_remotely(environment, environment.own.host, command); });
  Link link = accepted(listener);
  CHECK(next_of(link) == "run " + command);
  ::close(listener);
}

}  // namespace
}  // namespace mlk::mpi
