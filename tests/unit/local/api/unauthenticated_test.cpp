// The user of a connection, and which connection is closed when there are too many.
#include "cli/local/api/unauthenticated.h"

#include <array>
#include <memory>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("local/api/unauthenticated");

using mlk::local::UnauthenticatedConnections;
using mlk::local::user_of_peer;
using Side = UnauthenticatedConnections::Side;

namespace {

// The server's end and the client's end of a connection on loopback.
class OnLoopback {
 public:
  OnLoopback() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener_, 8) == 0);
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    address_ = address;
  }
  ~OnLoopback() {
    for (const int fd : {listener_, client, server}) ::close(fd);
  }
  OnLoopback(const OnLoopback&) = delete;
  OnLoopback& operator=(const OnLoopback&) = delete;

  int connected() const {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) == 0 ? fd : -1;
  }
  void accept() { server = ::accept(listener_, nullptr, nullptr); }

  int client = -1, server = -1;

 private:
  const int listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address_{};
};

struct Pair {
  Pair() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0); }
  ~Pair() {
    for (const int fd : ends) ::close(fd);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  int socket() const { return ends[0]; }
  bool is_open() const {
    char byte;
    return ::recv(ends[1], &byte, 1, MSG_DONTWAIT) < 0;
  }
  std::array<int, 2> ends{};
};

}  // namespace

TEST_CASE("user_of_peer() returns the user of the client until the client closes the connection") {
  OnLoopback loopback;
  loopback.client = loopback.connected();
  loopback.accept();
  CHECK(user_of_peer(loopback.server) == ::geteuid());
  ::shutdown(loopback.client, SHUT_WR);
  CHECK_FALSE(user_of_peer(loopback.server));
  CHECK_FALSE(user_of_peer(-1));
  CHECK_FALSE(user_of_peer(Pair().socket()));
}

TEST_CASE("if a process of another user has opened the connection, user_of_peer() returns that user") {
  constexpr uid_t other = 65534;
  if (::geteuid() != 0) return;  // only root can become another user
  OnLoopback loopback;
  std::array<int, 2> until{};
  REQUIRE(::pipe(until.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(until[1]);
    char byte;
    if (::setresuid(other, other, other) == 0 && loopback.connected() >= 0) (void)!::read(until[0], &byte, 1);
    ::_exit(0);
  }
  loopback.accept();
  CHECK(user_of_peer(loopback.server) == other);
  for (const int fd : until) ::close(fd);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE(
    "if the owner, or the other users together, have too many connections, their oldest one is closed") {
  std::vector<std::unique_ptr<Pair>> ours, others;
  UnauthenticatedConnections connections(3);
  const auto add = [&](std::vector<std::unique_ptr<Pair>>& to, Side side) {
    to.push_back(std::make_unique<Pair>());
    connections.enter(to.back()->socket(), side);
  };
  const auto open_of = [](const std::vector<std::unique_ptr<Pair>>& all) {
    std::vector<bool> out;
    for (const auto& each : all) out.push_back(each->is_open());
    return out;
  };
  add(ours, Side::ours);
  for (int i = 0; i < 5; ++i) add(others, Side::others);
  CHECK(open_of(ours) == std::vector<bool>{true});
  CHECK(open_of(others) == std::vector<bool>{false, false, true, true, true});
  for (int i = 0; i < 3; ++i) add(ours, Side::ours);
  CHECK(open_of(ours) == std::vector<bool>{false, true, true, true});
  CHECK(open_of(others) == std::vector<bool>{false, false, true, true, true});
  // A connection no longer counts towards the limit if its client has shown the token or has closed the
  // connection.
  connections.leave(ours[1]->socket());
  connections.leave(others[2]->socket());
  add(ours, Side::ours);
  add(others, Side::others);
  CHECK(open_of(ours) == std::vector<bool>{false, true, true, true, true});
  CHECK(open_of(others) == std::vector<bool>{false, false, true, true, true, true});
}
