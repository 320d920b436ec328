// The transport over real sockets on loopback.
#include "runtime/transport/transport.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <span>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/base/address.h"
#include "runtime/transport/local_socket.h"
#include "tests/unit/runtime/quick_transports.h"

TEST_SUITE_BEGIN("runtime/transport/transport");

using namespace mlk::rt;
using namespace mlk::test;
using namespace std::chrono_literals;

namespace {

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

int connect_to(const std::string& address) {
  const auto where = literal_address(*parse_host_port(address));
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(::connect(fd, where->get(), where->length) == 0);
  return fd;
}

// Reads until the other side closes the connection. Returns false if nothing arrives for 5 s.
bool closed_by_peer(int fd) {
  timeval limit{5, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char buffer[1024];
  while (true) {
    const auto got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got == 0) return true;
    if (got < 0) return errno == ECONNRESET;
  }
}

}  // namespace

TEST_CASE("two processes of a run meet and exchange messages in order") {
  Lines lines;
  auto server = make(server0, 1, lines), worker = make(worker0, 2, lines);
  worker->dial(server0, server->address());
  CHECK(next(*worker, Event::Kind::up).peer == server0);
  const Event up = next(*server, Event::Kind::up);
  CHECK(up.peer == worker0);
  CHECK(up.incarnation == 2);
  CHECK(up.address == worker->address());
  for (std::uint32_t i = 0; i < 100; ++i)
    CHECK(worker->send(server0, push(i), bytes(std::string(i * 100, 'x'))));
  for (std::uint32_t i = 0; i < 100; ++i) {
    const Event message = next(*server, Event::Kind::message);
    CHECK(message.header.key == i);
    CHECK(message.payload.size() == i * 100);
  }
}

TEST_CASE("a large payload is received into the buffer posted for it") {
  for (const bool unix_sockets : {true, false}) {
    CAPTURE(unix_sockets);
    Lines lines;
    TransportOptions options = quick();
    options.unix_sockets = unix_sockets;
    auto server = make(server0, 1, lines, 'a', options), worker = make(worker0, 2, lines, 'a', options);
    worker->dial(server0, server->address());
    next(*worker, Event::Kind::up);
    // A small payload, one for the lane, and one too large for the lane.
    for (const std::size_t size : {std::size_t{77}, std::size_t{300'003}, std::size_t{5'000'003}}) {
      Bytes sent(size), received(size);
      for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7);
      server->posted_receives().post({worker0, MessageType::push, 0, 9, 3}, received);
      CHECK(worker->send(server0, push(3, 8), sent));
      CHECK(worker->send(server0, push(3, 9), sent));
      const Event elsewhere = next(*server, Event::Kind::message);
      CHECK_FALSE(elsewhere.in_posted_buffer);
      CHECK(elsewhere.payload == sent);
      const Event message = next(*server, Event::Kind::message);
      CHECK(message.in_posted_buffer);
      CHECK(message.payload.empty());
      CHECK(received == sent);
    }
  }
}

TEST_CASE("a payload can be added to the content of its buffer") {
  for (const bool unix_sockets : {true, false}) {
    CAPTURE(unix_sockets);
    Lines lines;
    TransportOptions options = quick();
    options.unix_sockets = unix_sockets;
    auto server = make(server0, 1, lines, 'a', options), worker = make(worker0, 2, lines, 'a', options);
    worker->dial(server0, server->address());
    next(*worker, Event::Kind::up);
    for (const std::size_t size : {10u, 1000u, 70'000u, 1'000'000u}) {
      std::vector<float> sum(size, 1.5f), values(size);
      for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i % 1000);
      server->posted_receives().post({worker0, MessageType::push, 0, 9, 3},
                                     std::as_writable_bytes(std::span(sum)), ReceiveMode::add);
      CHECK(worker->send(server0, push(3, 9), std::as_bytes(std::span(values))));
      CHECK(next(*server, Event::Kind::message).in_posted_buffer);
      for (float& value : values) value += 1.5f;
      CHECK(sum == values);
    }
  }
}

TEST_CASE("a nudge ends one wait, and not the next") {
  Lines lines;
  auto server = make(server0, 1, lines);
  const auto far = std::chrono::steady_clock::now() + 1h;
  server->nudge();
  CHECK_FALSE(server->receive(far));
  std::thread other([&] {
    std::this_thread::sleep_for(50ms);
    server->nudge();
  });
  CHECK_FALSE(server->receive(far));
  other.join();
}

TEST_CASE("after cancel_all() a posted buffer is no longer written, and it can be posted again") {
  PostedReceives posted_receives;
  std::vector<std::byte> buffer(10);
  const ReceiveKey key{worker0, MessageType::push, 1, 2, 3};
  posted_receives.post(key, buffer);
  CHECK_FALSE(posted_receives.claim(key, 9));
  CHECK_FALSE(posted_receives.claim({worker1, MessageType::push, 1, 2, 3}, 10));
  const auto ticket = posted_receives.claim(key, 10);
  REQUIRE(ticket);
  CHECK(posted_receives.use(*ticket, [](std::span<std::byte> b) { b[0] = std::byte{1}; }));
  CHECK_FALSE(posted_receives.claim(key, 10));
  posted_receives.cancel_all();
  CHECK_FALSE(posted_receives.use(*ticket, [](std::span<std::byte> b) { b[0] = std::byte{2}; }));
  CHECK(buffer[0] == std::byte{1});
  posted_receives.post(key, buffer);
  CHECK(posted_receives.claim(key, 10));
}

TEST_CASE("the loss of a peer is noticed at once, and its new incarnation connects") {
  Lines lines;
  auto server = make(server0, 1, lines), worker = make(worker0, 2, lines);
  const std::string address = server->address();
  worker->dial(server0, address);
  next(*worker, Event::Kind::up);
  server.reset();
  const Event down = next(*worker, Event::Kind::down);
  CHECK(down.peer == server0);
  CHECK(down.proven);
  CHECK_FALSE(worker->send(server0, push(0)));
  server = make(server0, 3, lines, 'a', quick(), address);
  CHECK(next(*worker, Event::Kind::up).incarnation == 3);
}

// The number of connections that the UNIX socket beside the address has accepted.
std::size_t unix_connections(const std::string& address) {
  std::ifstream table("/proc/net/unix");
  std::size_t count = 0;
  for (std::string line; std::getline(table, line);) {
    count += line.ends_with("@mlk-runtime " + address) && line.find(" 0001 03 ") != std::string::npos;
  }
  return count;
}

TEST_CASE("processes of one host connect by a UNIX socket, or by TCP if the options say so") {
  Lines lines;
  auto server = make(server0, 1, lines), worker = make(worker0, 2, lines);
  worker->dial(server0, server->address());
  next(*worker, Event::Kind::up);
  CHECK(unix_connections(server->address()) == 1);
  TransportOptions tcp = quick();
  tcp.unix_sockets = false;
  auto other = make(worker1, 3, lines, 'a', tcp);
  other->dial(server0, server->address());
  next(*other, Event::Kind::up);
  CHECK(unix_connections(server->address()) == 1);
}

TEST_CASE("a foreign process at the UNIX socket of an address does not prevent connections by TCP") {
  Lines lines;
  auto probe = make(server0, 1, lines);
  const std::string address = probe->address();
  probe.reset();
  const int squatter = listen_locally(*literal_address(*parse_host_port(address)));
  REQUIRE(squatter >= 0);
  auto server = make(server0, 1, lines, 'a', quick(), address);
  CHECK(lines.containing("another process holds the UNIX socket beside " + address) == 1);
  auto worker = make(worker0, 2, lines);
  worker->dial(server0, address);
  // The holder is of this user, but sends nothing: the next attempt uses TCP.
  CHECK(next(*worker, Event::Kind::up).peer == server0);
  ::close(squatter);
}

TEST_CASE("a transport dials a peer again and again until the peer listens") {
  Lines lines;
  auto probe = make(server0, 1, lines);
  const std::string address = probe->address();
  probe.reset();
  auto worker = make(worker0, 2, lines);
  worker->dial(server0, address);
  CHECK_FALSE(worker->receive(std::chrono::steady_clock::now() + 200ms));
  auto server = make(server0, 1, lines, 'a', quick(), address);
  next(*worker, Event::Kind::up);
}

TEST_CASE(
    "a process with another key gets no connection, logs the reason, and does not disturb other processes") {
  Lines lines, other_lines;
  auto server = make(server0, 1, lines), worker = make(worker0, 2, lines);
  auto stranger = make(worker1, 3, other_lines, 'b');
  stranger->dial(server0, server->address());
  worker->dial(server0, server->address());
  CHECK(next(*server, Event::Kind::up).peer == worker0);
  CHECK_FALSE(stranger->receive(std::chrono::steady_clock::now() + 500ms));
  CHECK(worker->send(server0, push(1)));
  CHECK(next(*server, Event::Kind::message).header.key == 1);
  CHECK(other_lines.containing("does not know the key") >= 1);
}

TEST_CASE("random bytes are refused with a line that names the peer, and the number of lines is limited") {
  Lines lines;
  auto server = make(server0, 1, lines);
  for (int round = 0; round < 50; ++round) {
    const int fd = connect_to(server->address());
    const std::string noise(200, static_cast<char>('A' + round % 26));
    (void)!::send(fd, noise.data(), noise.size(), MSG_NOSIGNAL);
    CHECK(closed_by_peer(fd));
    ::close(fd);
  }
  CHECK(lines.containing("not our protocol") == 5);
  CHECK(lines.containing("127.0.0.1:") == 5);
}

TEST_CASE("a stranger that sends nothing is closed after a while, and many of them do not keep peers out") {
  Lines lines;
  TransportOptions options = quick();
  options.handshake_timeout = 1000ms;
  options.max_strangers = 8;
  auto server = make(server0, 1, lines, 'a', options);
  std::vector<int> fds;
  for (int i = 0; i < 40; ++i) fds.push_back(connect_to(server->address()));
  auto worker = make(worker0, 2, lines);
  worker->dial(server0, server->address());
  next(*worker, Event::Kind::up);
  for (const int fd : fds) {
    CHECK(closed_by_peer(fd));
    ::close(fd);
  }
}

TEST_CASE("the later of two incarnations of a peer wins, and the other is replaced and refused") {
  Lines lines;
  auto server = make(server0, 1, lines);
  auto older = make(worker0, 2, lines);
  older->dial(server0, server->address());
  next(*server, Event::Kind::up);
  auto newer = make(worker0, 3, lines);
  newer->dial(server0, server->address());
  const Event down = next(*server, Event::Kind::down);
  CHECK(down.incarnation == 2);
  CHECK(down.proven);
  CHECK(next(*server, Event::Kind::up).incarnation == 3);
  CHECK(next(*older, Event::Kind::replaced).peer == server0);
  next(*older, Event::Kind::replaced);  // the older incarnation has tried again
  CHECK(newer->send(server0, push(5)));
  CHECK(next(*server, Event::Kind::message).incarnation == 3);
}

TEST_CASE("a goodbye carries the exit code, and arrives after the messages that were sent before it") {
  Lines lines;
  auto server = make(server0, 1, lines), worker = make(worker0, 2, lines);
  worker->dial(server0, server->address());
  next(*server, Event::Kind::up);
  next(*worker, Event::Kind::up);
  CHECK(worker->send(server0, push(1)));
  worker->send_goodbye(66);
  worker.reset();
  next(*server, Event::Kind::message);
  const Event goodbye = next(*server, Event::Kind::goodbye);
  CHECK(goodbye.header.clock == 66);
  CHECK(goodbye.peer == worker0);
  next(*server, Event::Kind::down);
}

TEST_CASE("after a suspension of this host, the end of a connection does not prove the death of its peer") {
  Lines lines;
  std::atomic<std::chrono::nanoseconds> suspended{0ns};
  TransportOptions options = quick();
  options.handshake_timeout = 5s;  // the time that the peer has to come back
  options.suspended = [&] { return suspended.load(); };
  auto server = make(server0, 1, lines);
  auto worker = make(worker0, 2, lines, 'a', options);
  worker->dial(server0, server->address());
  next(*worker, Event::Kind::up);
  suspended = 1h;
  server.reset();
  CHECK_FALSE(next(*worker, Event::Kind::down).proven);
}

TEST_CASE("a message in a posted buffer is dropped and counted if cancel_all() comes before its event") {
  Lines lines;
  auto server = make(server0, 1, lines), worker = make(worker0, 2, lines);
  worker->dial(server0, server->address());
  next(*worker, Event::Kind::up);
  next(*server, Event::Kind::up);
  Bytes received(100);
  server->posted_receives().post({worker0, MessageType::push, 0, 0, 3}, received);
  CHECK(worker->send(server0, push(3), Bytes(100)));
  while (server->held_bytes() == 0) std::this_thread::sleep_for(1ms);
  server->posted_receives().cancel_all();
  CHECK(worker->send(server0, push(4)));
  CHECK(next(*server, Event::Kind::message).header.key == 4);
  CHECK(server->late_messages() == 1);
}
