// Addresses as texts, names that are looked up, and sockets that listen at an address.
#include "runtime/base/address.h"

#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "runtime/base/exit_code.h"
#include "runtime/base/listen.h"

TEST_SUITE_BEGIN("runtime/base/address");

using namespace mlk::rt;
using namespace std::chrono_literals;

TEST_CASE("parse_host_port() separates host and port, also for IPv6") {
  CHECK(parse_host_port("a.b:80")->host == "a.b");
  CHECK(parse_host_port("[::1]:7070")->host == "::1");
  CHECK(parse_host_port("[::1]:7070")->port == 7070);
  CHECK(to_string(*parse_host_port("[::1]:7070")) == "[::1]:7070");
  for (const char* bad : {"", "host", "host:", ":80", "host:99999", "host:8x"})
    CHECK_FALSE(parse_host_port(bad));
}

TEST_CASE("parse_host_port() refuses invalid ports, and removes only complete pairs of brackets") {
  const auto parsed = [](const char* text) {
    const auto found = parse_host_port(text);
    return found ? found->host + " " + std::to_string(found->port) : "none";
  };
  CHECK(parsed("a:0") == "a 0");
  CHECK(parsed("a:65535") == "a 65535");
  CHECK(parsed("a:65536") == "none");
  CHECK(parsed("a:-1") == "none");
  CHECK(parsed("a:1 ") == "none");
  CHECK(parsed("[]:1") == "[] 1");
  CHECK(parsed("[a]:1") == "a 1");
  CHECK(parsed("[a:1") == "[a 1");
  CHECK(parsed("a]:1") == "a] 1");
  CHECK(parsed("::1:7") == "::1 7");
  CHECK(to_string(HostPort{"a", 7}) == "a:7");
  CHECK(to_string(HostPort{"::1", 7}) == "[::1]:7");
  const auto literal = literal_address({"127.0.0.2", 7});
  REQUIRE(literal);
  CHECK(literal->length == sizeof(sockaddr_in));
  CHECK(to_string(*literal) == "127.0.0.2:7");
  CHECK_FALSE(literal_address({"localhost", 7}));
  CHECK(to_string(SocketAddress()) == "an unknown address");
}

TEST_CASE("a Resolver looks up names in order, and each answer has the number of its request") {
  Resolver resolver;
  resolver.look_up(5, {"127.0.0.1", 80});
  resolver.look_up(6, {"no-such-host.invalid", 80});
  resolver.look_up(7, {"127.0.0.2", 81});
  std::vector<Resolver::Result> results;
  pollfd entry{resolver.fd(), POLLIN, 0};
  while (results.size() < 3) {
    REQUIRE(::poll(&entry, 1, 60'000) == 1);
    for (auto& result : resolver.take_results()) results.push_back(std::move(result));
  }
  CHECK(::poll(&entry, 1, 0) == 0);
  CHECK(resolver.take_results().empty());
  REQUIRE(results[0].addresses.size() == 1);
  CHECK(to_string(results[0].addresses[0]) == "127.0.0.1:80");
  CHECK(results[1].addresses.empty());
  REQUIRE(results[2].addresses.size() == 1);
  CHECK(to_string(results[2].addresses[0]) == "127.0.0.2:81");
  for (std::uint64_t i = 0; i < 3; ++i) CHECK(results[i].ticket == 5 + i);
}

TEST_CASE("listen_at() listens at the given address, or on all interfaces if the given host is a name") {
  const auto name_of = [](int fd) {
    SocketAddress address;
    address.length = sizeof address.storage;
    getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length);
    return address;
  };
  int told = -1;
  const int at_address = listen_at({"127.0.0.3", 0}, 0ms, [&](int fd) { told = fd; });
  CHECK(told == at_address);
  CHECK(to_string(name_of(at_address)).starts_with("127.0.0.3:"));
  const auto port = parse_host_port(to_string(name_of(at_address)))->port;
  try {
    listen_at({"127.0.0.3", port}, 0ms);
    FAIL("it is taken");
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::internal_error);
    CHECK(failure.what() ==
          "cannot listen at 127.0.0.3:" + std::to_string(port) + ": Address already in use");
  }
  CHECK_THROWS_AS(listen_at({"192.0.2.1", 0}, 1h),
                  Failure);  // not an address of this host: no patience helps
  const int by_name = listen_at({"some-name.invalid", 0}, 0ms);
  const SocketAddress all = name_of(by_name);
  const auto open_port = ntohs(reinterpret_cast<const sockaddr_in*>(all.get())->sin_port);
  const int caller = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto where = literal_address({"127.0.0.4", open_port});
  CHECK(::connect(caller, where->get(), where->length) == 0);
  pollfd entry{by_name, POLLIN, 0};
  CHECK(::poll(&entry, 1, 20'000) == 1);
  for (const int fd : {at_address, by_name, caller}) ::close(fd);
}

TEST_CASE("listen_at() tries again until the address is free if another process holds it") {
  const int holder = listen_at({"127.0.0.5", 0}, 0ms);
  SocketAddress address;
  address.length = sizeof address.storage;
  getsockname(holder, reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  const HostPort where = *parse_host_port(to_string(address));
  int tried = 0;
  std::thread letting_go([&] {
    std::this_thread::sleep_for(50ms);
    ::close(holder);
  });
  const int fd = listen_at(where, 1h, [&](int) { ++tried; });
  letting_go.join();
  CHECK(fd >= 0);
  CHECK(tried == 1);
  int listens = 0;
  socklen_t size = sizeof listens;
  CHECK(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0);
  CHECK(listens == 1);
  ::close(fd);
}
