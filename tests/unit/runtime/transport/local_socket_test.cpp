// UNIX sockets beside TCP addresses.
#include "runtime/transport/local_socket.h"

#include <cerrno>
#include <filesystem>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "tests/unit/runtime/raw_peer.h"

TEST_SUITE_BEGIN("runtime/transport/local_socket");

using namespace mlk::rt;

namespace {

SocketAddress at(const char* host_port) { return *literal_address(*parse_host_port(host_port)); }

}  // namespace

TEST_CASE("loopback addresses belong to this host, and addresses of other networks do not") {
  CHECK(is_of_this_host(at("127.0.0.1:80")));
  CHECK(is_of_this_host(at("127.77.3.200:80")));
  CHECK_FALSE(is_of_this_host(at("192.0.2.1:80")));      // RFC 5737: for documentation
  CHECK_FALSE(is_of_this_host(at("[2001:db8::1]:80")));  // RFC 3849
}

TEST_CASE("the UNIX socket of an address is found only at that address") {
  const int listener = listen_locally(at("127.201.1.1:7070"));
  REQUIRE(listener >= 0);
  CHECK(listen_locally(at("127.201.1.1:7070")) == -1);
  CHECK(errno == EADDRINUSE);
  CHECK(connect_locally(at("127.201.1.1:7071")) == -1);
  CHECK(connect_locally(at("127.201.1.2:7070")) == -1);
  const int dialled = connect_locally(at("127.201.1.1:7070"));
  CHECK(dialled >= 0);
  const int accepted = accept_locally(listener);
  CHECK(accepted >= 0);
  CHECK(peer_process(accepted) == getpid());
  CHECK(peer_process(dialled) == getpid());
  for (const int fd : {listener, dialled, accepted}) ::close(fd);
}

TEST_CASE("the UNIX socket of a listener on all interfaces is found at the address of one interface") {
  const int listener = listen_locally(at("0.0.0.0:7373"));
  REQUIRE(listener >= 0);
  const int dialled = connect_locally(at("127.201.1.9:7373"));
  CHECK(dialled >= 0);
  for (const int fd : {listener, dialled}) ::close(fd);
}

TEST_CASE("a process of another user is recognised at both ends") {
  if (geteuid() != 0) {
    MESSAGE("skipped: only root can act as another user");
    return;
  }
  const int listener = listen_locally(at("127.201.1.3:7070"));
  REQUIRE(listener >= 0);
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    // The process of the other user connects to this process, and listens at the address to which this
    // process connects.
    if (setuid(65534) != 0) _exit(1);
    const int foreign = listen_locally(at("127.201.1.4:7070"));
    const bool refused = connect_locally(at("127.201.1.3:7070")) == -1;
    (void)!::write(ready[1], "x", 1);
    pollfd waiting{foreign, POLLIN, 0};
    poll(&waiting, 1, 10'000);
    _exit(foreign >= 0 && refused ? 0 : 2);
  }
  char byte;
  CHECK(::read(ready[0], &byte, 1) == 1);
  const int accepted = accept_locally(listener);  // that process has connected, checked our user, and closed
  CHECK(accepted >= 0);
  CHECK_FALSE(peer_process(accepted));
  CHECK(connect_locally(at("127.201.1.4:7070")) == -1);
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  for (const int fd : {listener, accepted, ready[0], ready[1]}) ::close(fd);
}

TEST_CASE(
    "only one process can open the UNIX socket of an address, and a failed attempt leaves no descriptor "
    "open") {
  const auto count = [] {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return std::distance(begin(entries), end(entries));
  };
  const SocketAddress here = at("127.201.9.1:7171");
  const auto before = count();
  const int listener = listen_locally(here);
  REQUIRE(listener >= 0);
  CHECK(listen_locally(here) == -1);
  CHECK(connect_locally(at("127.201.9.2:7171")) == -1);
  CHECK(accept_locally(listener) == -1);
  CHECK(errno == EAGAIN);
  CHECK(mlk::test::eventually([&] { return count() <= before + 1; }));
  // The same with IPv6, on all interfaces.
  const int six = listen_locally(at("[::]:7272"));
  REQUIRE(six >= 0);
  const int caller = connect_locally(at("[::1]:7272"));
  CHECK(caller >= 0);
  CHECK(is_of_this_host(at("127.255.0.1:1")));
  for (const int fd : {listener, six, caller}) ::close(fd);
  CHECK(mlk::test::eventually([&] { return count() <= before; }));
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  CHECK_FALSE(peer_process(pipe_ends[0]));
  for (const int fd : pipe_ends) ::close(fd);
}
