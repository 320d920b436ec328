// Checks the settings of a pod, the connections of mlk-mpi, and the processes that mlk-mpi starts.
#include "pod/mpi/link.h"

#include <cstring>
#include <map>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <doctest/doctest.h>

#include "pod/mpi/children.h"
#include "tests/unit/pod/mpi/played.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("pod/mpi/link");

namespace mlk::mpi {
namespace {

TEST_CASE("parse_number() accepts only whole numbers in the range of an int") {
  CHECK(parse_number("64") == 64);
  CHECK(parse_number("-1") == -1);
  for (const char* text : {"", "5x", " 5", "+5", "0x10", "2.5", "99999999999", "-"}) {
    INFO(text);
    CHECK(parse_number(text) == std::nullopt);
  }
}

TEST_CASE("an address is a host and a port, and the default port is 7070") {
  const auto text = [](const char* address) {
    const Address one = parse_address(address);
    return one.host + " " + one.port;
  };
  CHECK(text("x-worker-0.x:7071") == "x-worker-0.x 7071");
  CHECK(text("x-worker-0.x") == "x-worker-0.x 7070");
  CHECK(text("::1:7071") == "::1 7071");
}

struct Said {
  int code;
  std::string out, err;
};

// The settings that a process with this environment reads.
Said surroundings(const std::map<std::string, std::string>& environment) {
  Child child([&] {
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    const PodEnvironment read = read_pod_environment();
    std::string text = read.role + " " + read.rank + " " + read.folder + " " + read.key + " " +
                       read.own.host + " " + read.own.port + " " + number(read.processes) + " " +
                       number(read.patience_ms);
    for (const Address& one : read.all) text += " " + one.host + "|" + one.port;
    return ::write(1, text.data(), text.size()) < 0 ? 1 : 0;
  });
  const int code = child.code();
  return {code, child.out(), child.err()};
}

TEST_CASE("a pod reads its settings from the environment, and its key from a file") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "key").string();
  std::ofstream(path) << test_key << "\n\n";
  const std::map<std::string, std::string> whole{{"MLK_ADDRESS", "a-0.a:7071"},
                                                 {"MLK_ROLE", "worker"},
                                                 {"MLK_RANK", "1"},
                                                 {"MLK_SECRET", path},
                                                 {"MLK_MPI_FOLDER", "/folder"},
                                                 {"MLK_MPI_ADDRESSES", "a-0.a:7071,a-1.a,127.0.0.1:1"},
                                                 {"MLK_MPI_PROCESSES", "4"},
                                                 {"MLK_MPI_PATIENCE", "900"}};
  const Said said = surroundings(whole);
  CHECK(said.code == 0);
  CHECK(said.out == std::string("worker 1 /folder ") + test_key +
                        " a-0.a 7071 4 900000 a-0.a|7071 a-1.a|7070 127.0.0.1|1");
  for (const auto& [name, value] : whole) {
    std::map<std::string, std::string> without = whole;
    without[name] = "";
    const Said refused = surroundings(without);
    CHECK(refused.code == 126);
    CHECK(refused.err ==
          "mlk: " + name + " is not set: mlk starts this program, in the pods of framework: mpi\n");
  }
  std::map<std::string, std::string> no_file = whole;
  no_file["MLK_SECRET"] = path + ".not-there";
  CHECK(surroundings(no_file).code == 126);
  std::ofstream(path) << std::string(test_key).substr(1) << "\n";
  CHECK(surroundings(whole).code == 126);
  CHECK(surroundings(whole).err == "mlk: the run's key cannot be read from " + path + "\n");
}

TEST_CASE("on_one_machine() is true if the pod's own address is a loopback address") {
  PodEnvironment environment = pods(1);
  CHECK(environment.on_one_machine());
  environment.own = parse_address("x-worker-0.x");
  CHECK_FALSE(environment.on_one_machine());
}

TEST_CASE("a connection is ready when the peer has proven its key, and ends when the peer closes it") {
  const PodEnvironment environment = pods(1);
  CHECK_FALSE(connect_to(environment.own, test_key, 1000));
  CHECK_FALSE(connect_to({"no-such-host.invalid", "7070"}, test_key, 1000));
  const int listener = listen_at(environment.own);
  std::optional<Link> client = connect_to(environment.own, test_key, 1000);
  REQUIRE(client);
  CHECK_FALSE(wait_until_ready(*client, 50));  // the other end has sent nothing
  CHECK(client->events() == POLLIN);
  {
    Link server(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK), Session::Side::server,
                test_key);
    CHECK(server.events() == (POLLIN | POLLOUT));
    Child other([&] { return wait_until_ready(server, patience_of_tests_ms) ? 0 : 1; });
    CHECK(wait_until_ready(*client, patience_of_tests_ms));
    CHECK(other.code() == 0);
  }
  CHECK(next_of(*client) == "closed");
  ::close(listener);
}

TEST_CASE("a new pod can listen at the address of an ended pod at once") {
  const PodEnvironment environment = pods(1);
  for (int turn = 0; turn < 2; ++turn) {
    const int listener = listen_at(environment.own);
    const std::optional<Link> client = connect_to(environment.own, test_key, 1000);
    CHECK(client);
    ::close(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    ::close(listener);
  }
}

TEST_CASE("code_of() returns the exit code of a process, or 128 + the signal that killed it") {
  CHECK(code_of(7 << 8) == 7);
  CHECK(code_of(0) == 0);
  CHECK(code_of(SIGKILL) == 137);
}

TEST_CASE("read_signals() reports each request to stop and each end of a child once") {
  Child child([] {
    const int fd = take_signals();
    const auto reads = [fd](bool stop, bool child_ended) {
      Arrived news;
      for (int i = 0; i < 2000 && !news.stop && !news.child; ++i) {
        news = read_signals(fd);
        ::usleep(1000);
      }
      return news.stop == stop && news.child == child_ended;
    };
    if (read_signals(fd).stop || read_signals(fd).child) return 1;
    for (const int signal : {SIGTERM, SIGINT}) {
      ::raise(signal);
      if (!reads(true, false)) return 2;
      if (read_signals(fd).stop) return 3;
    }
    if (::fork() == 0) ::_exit(0);
    return reads(false, true) ? 0 : 4;
  });
  CHECK(child.code() == 0);
}

TEST_CASE(
    "a program that spawn() starts has no input, writes to the given descriptors, and receives signals") {
  Child child([] {
    (void)take_signals();
    int status = 0;
    const pid_t reads =
        spawn({"sh", "-c", "cat; echo out; echo err >&2; cut -d ' ' -f 5 /proc/$$/stat; echo $$"}, 1, 2);
    ::waitpid(reads, &status, 0);
    if (code_of(status) != 0) return 1;
    const pid_t sleeps = spawn({"sleep", "100"}, 1, 2);
    ::kill(sleeps, SIGTERM);
    ::waitpid(sleeps, &status, 0);
    if (code_of(status) != 143) return 2;
    const pid_t missing = spawn({"/no/such/program"}, 1, 2);
    ::waitpid(missing, &status, 0);
    if (code_of(status) != 127) return 3;
    const pid_t not_executable = spawn({"/etc/passwd"}, 1, 2);
    ::waitpid(not_executable, &status, 0);
    return code_of(status) == 126 ? 0 : 4;
  });
  CHECK(child.code() == 0);
  const std::string out = child.out();
  REQUIRE(out.starts_with("out\n"));
  const std::size_t line_end = out.find('\n', 4);
  CHECK(out.substr(4, line_end - 4) + "\n" == out.substr(line_end + 1));  // a process group of its own
  CHECK(child.err() ==
        "err\nmlk: /no/such/program: No such file or directory\nmlk: /etc/passwd: Permission denied\n");
}

TEST_CASE(
    "kill_descendants() kills all descendants and orphans, but spares the given process and its children") {
  const TemporaryFolder folder;
  const std::string begun = (folder.path() / "begun").string();
  Child child([&] {
    (void)take_signals();
    const pid_t kept = spawn({"sh", "-c", "sleep 100 & echo kept $!; : > " + begun + "; wait"}, 1, 2);
    const pid_t killed = spawn({"sh", "-c", "(trap '' TERM; sleep 100) & echo killed $!; exit 0"}, 1, 2);
    int status = 0;
    ::waitpid(killed, &status, 0);
    if (!in_time([&] { return std::filesystem::exists(begun); })) return 2;
    kill_descendants(kept);
    if (::write(1, "done\n", 5) < 0) return 1;
    ::sleep(100);
    return 0;
  });
  REQUIRE(in_time([&] { return child.out().find("done\n") != std::string::npos; }));
  const std::string out = child.out();
  const auto pid_of = [&](const char* word) {
    const std::size_t at = out.find(word);
    REQUIRE(at != out.npos);
    return static_cast<pid_t>(std::atoi(out.c_str() + at + std::strlen(word)));
  };
  const pid_t kept = pid_of("kept "), killed = pid_of("killed ");
  CHECK(in_time([&] { return !is_alive(killed); }));
  CHECK(is_alive(kept));
  ::kill(kept, SIGKILL);
}

TEST_CASE("a closed or failed connection leaves no socket open") {
  const PodEnvironment environment = pods(1);
  const long before = descriptors(::getpid());
  CHECK_FALSE(connect_to(environment.own, test_key, 1000));
  CHECK_FALSE(connect_to({"no-such-host.invalid", "7070"}, test_key, 1000));
  CHECK(descriptors(::getpid()) == before);
  const int listener = listen_at(environment.own);
  {
    std::optional<Link> one = connect_to(environment.own, test_key, 1000),
                        two = connect_to(environment.own, test_key, 1000);
    REQUIRE((one && two));
    CHECK(descriptors(::getpid()) == before + 3);
    Link moved(std::move(*one));
    CHECK(descriptors(::getpid()) == before + 3);
    *two = std::move(moved);
    CHECK(two->fd() >= 0);
  }
  CHECK(descriptors(::getpid()) == before + 1);
  ::close(listener);
  ::close(listen_at({"x-worker-0.x", "0"}));  // for a name, listen_at() listens on all interfaces
  CHECK(descriptors(::getpid()) == before);
}

TEST_CASE("connect_to() returns nullopt and leaves no socket open if an address does not answer in time") {
  const PodEnvironment environment = pods(1);
  const int listener = listen_at(environment.own);
  REQUIRE(::listen(listener, 0) == 0);  // the system accepts only the first one or two connections
  const long before = descriptors(::getpid());
  std::vector<Link> connected;
  bool gave_up_one = false;
  while (!gave_up_one && connected.size() < 20) {
    std::optional<Link> one = connect_to(environment.own, test_key, 200);
    gave_up_one = !one;
    if (one) connected.push_back(std::move(*one));
  }
  CHECK(gave_up_one);
  CHECK(descriptors(::getpid()) == before + static_cast<long>(connected.size()));
  ::close(listener);
}

TEST_CASE("read_pod_environment() closes the file of the key") {
  const TemporaryFolder folder;
  const std::string path = folder.write("key", test_key).string();
  Child child([&] {
    for (const char* name : {"MLK_ADDRESS", "MLK_ROLE", "MLK_RANK", "MLK_MPI_FOLDER", "MLK_MPI_ADDRESSES",
                             "MLK_MPI_PROCESSES", "MLK_MPI_PATIENCE"})
      ::setenv(name, "1", 1);
    ::setenv("MLK_SECRET", path.c_str(), 1);
    const long before = descriptors(::getpid());
    (void)read_pod_environment();
    return descriptors(::getpid()) == before ? 0 : 1;
  });
  CHECK(child.code() == 0);
}

TEST_CASE("sockets are closed on exec, do not block, and detect a silent host within 15 s") {
  const PodEnvironment environment = pods(1);
  const int listener = listen_at(environment.own);
  const std::optional<Link> client = connect_to(environment.own, test_key, 1000);
  REQUIRE(client);
  for (const int fd : {listener, client->fd()}) {
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK((::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
  }
  const auto value = [&](int level, int option) {
    int out = -1;
    socklen_t size = sizeof out;
    ::getsockopt(client->fd(), level, option, &out, &size);
    return out;
  };
  CHECK(value(SOL_SOCKET, SO_KEEPALIVE) == 1);
  CHECK(value(IPPROTO_TCP, TCP_NODELAY) == 1);
  CHECK(value(IPPROTO_TCP, TCP_KEEPIDLE) +
            value(IPPROTO_TCP, TCP_KEEPINTVL) * value(IPPROTO_TCP, TCP_KEEPCNT) ==
        15);
  CHECK(value(IPPROTO_TCP, TCP_USER_TIMEOUT) == 15000);
  ::close(listener);
}

TEST_CASE("a write to a closed connection ends the connection, and causes no signal") {
  Child child([] {
    ::signal(SIGPIPE, SIG_DFL);
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) return 1;
    Link server(ends[0], Session::Side::server, test_key);
    if ((server.events() & POLLOUT) == 0) return 2;  // the server sends first
    ::close(ends[1]);
    if (server.flush()) return 3;
    return server.work(POLLHUP) ? 4 : 0;
  });
  CHECK(child.code() == 0);
}

TEST_CASE(
    "Link::work() returns true if there are no new bytes, and false if the other end has closed the "
    "connection") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  Link client(ends[0], Session::Side::client, test_key);
  CHECK(client.work(POLLIN));
  ::close(ends[1]);
  CHECK_FALSE(client.work(POLLIN));
}

TEST_CASE("a program that spawn() starts gets only three descriptors, and has no signal blocked or ignored") {
  Child child([] {
    ::close_range(3, ~0U, 0);  // descriptors that the tests have inherited
    (void)take_signals();
    int status = 0;
    for (const std::string script : {tell_descriptors, "cat /proc/self/status"}) {
      const pid_t pid = spawn({"sh", "-c", script}, 1, 2);
      ::waitpid(pid, &status, 0);
      if (code_of(status) != 0) return 1;
    }
    return 0;
  });
  CHECK(child.code() == 0);
  const std::string out = child.out();
  CHECK(out.starts_with("\n"));
  CHECK(hears_our_signals(out));
}

}  // namespace
}  // namespace mlk::mpi
