// What a transport holds for peers that read slowly or not at all, and how long their senders wait.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/transport/transport.h"
#include "tests/unit/runtime/quick_transports.h"

TEST_SUITE_BEGIN("runtime/transport/transport_slow_peers");

using namespace mlk::rt;
using namespace mlk::test;
using namespace std::chrono_literals;

TEST_CASE("the credit of a peer limits the bytes that are held for it, even when the peer reconnects") {
  Lines lines;
  TransportOptions options = quick();
  options.credit = 256 * 1024;
  auto server = make(server0, 1, lines, 'a', options);
  const Bytes payload(50'000);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::unique_ptr<Transport>> workers;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      workers.push_back(make({Role::worker, rank}, 10 + rank, lines, 'a', options));
      workers.back()->dial(server0, server->address());
      next(*workers.back(), Event::Kind::up);
      for (std::uint32_t i = 0; i < 200 && workers.back()->has_room(server0); ++i) {
        workers.back()->send(server0, push(i), payload);
      }
    }
    CHECK(server->held_bytes() <= 3 * (options.credit + payload.size() + header_size));
  }
  CHECK(server->held_bytes() > 0);
}

TEST_CASE("a send beyond the limit of the queue ends the connection, and skips no earlier message") {
  Lines lines;
  TransportOptions options = quick();
  options.credit = 256 * 1024;
  auto server = make(server0, 1, lines, 'a', options), worker = make(worker0, 2, lines, 'a', options);
  worker->dial(server0, server->address());
  next(*worker, Event::Kind::up);
  const Bytes payload(100'000);
  std::uint32_t sent = 0;
  while (sent < 1000 && worker->send(server0, push(sent), payload, WhenFull::refuse)) ++sent;
  CHECK(sent > 3);
  CHECK(sent < 1000);
  CHECK(worker->held_bytes() <= options.credit + payload.size());
  next(*worker, Event::Kind::down);
  std::uint32_t received = 0;
  while (auto event = server->receive(std::chrono::steady_clock::now() + 10s)) {
    if (event->kind == Event::Kind::down) break;
    if (event->kind == Event::Kind::message) CHECK(event->header.key == received++);
  }
  CHECK(received <= sent);
}

TEST_CASE("a sender without room gets an event when there is room") {
  Lines lines;
  TransportOptions options = quick();
  options.credit = 64 * 1024;
  auto server = make(server0, 1, lines, 'a', options), worker = make(worker0, 2, lines, 'a', options);
  worker->dial(server0, server->address());
  next(*worker, Event::Kind::up);
  const Bytes payload(100'000);
  std::uint32_t sent = 0, received = 0;
  for (int times_full = 0; times_full < 3; ++times_full) {
    while (worker->has_room(server0)) CHECK(worker->send(server0, push(sent++), payload));
    while (received < sent) CHECK(next(*server, Event::Kind::message).header.key == received++);
    next(*worker, Event::Kind::room);
  }
}

TEST_CASE("a live peer that does not read for a while is not lost") {
  for (const bool unix_sockets : {true, false}) {
    CAPTURE(unix_sockets);
    Lines lines;
    TransportOptions options = quick();
    options.credit = 64 * 1024;
    options.lost_after = 1s;
    options.unix_sockets = unix_sockets;
    auto server = make(server0, 1, lines, 'a', options), worker = make(worker0, 2, lines, 'a', options);
    worker->dial(server0, server->address());
    next(*worker, Event::Kind::up);
    const Bytes payload(100'000);
    std::uint32_t sent = 0;
    while (worker->has_room(server0)) CHECK(worker->send(server0, push(sent++), payload));
    std::this_thread::sleep_for(2500ms);
    for (std::uint32_t i = 0; i < sent; ++i) CHECK(next(*server, Event::Kind::message).header.key == i);
    next(*worker, Event::Kind::room);
  }
}

TEST_CASE("a sender does not wait for ever for a peer that neither reads nor sends") {
  for (const bool unix_sockets : {true, false}) {
    CAPTURE(unix_sockets);
    Lines lines;
    TransportOptions options = quick();
    options.credit = 64 * 1024;
    options.lost_after = 600ms;
    options.unix_sockets = unix_sockets;
    auto worker = make(worker0, 2, lines, 'a', options);
    options.heartbeat = Milliseconds(3'600'000);
    auto server = make(server0, 1, lines, 'a', options);
    worker->dial(server0, server->address());
    next(*worker, Event::Kind::up);
    const Bytes payload(100'000);
    int sent = 0;
    while (sent < 1000 && worker->send(server0, push(0), payload)) ++sent;
    CHECK(sent < 1000);
    const Event down = next(*worker, Event::Kind::down);
    CHECK_FALSE(down.proven);
  }
}

TEST_CASE("a sender that waits for room delivers all of its messages") {
  Lines lines;
  TransportOptions options = quick();
  options.credit = 256 * 1024;
  auto server = make(server0, 1, lines, 'a', options), worker = make(worker0, 2, lines, 'a', options);
  worker->dial(server0, server->address());
  next(*worker, Event::Kind::up);
  std::thread producer([&] {
    std::vector<std::byte> payload(100'000);
    for (std::uint32_t i = 0; i < 300; ++i) worker->send(server0, push(i), payload);
  });
  std::uint32_t received = 0;
  for (; received < 300; ++received) {
    if (next(*server, Event::Kind::message).header.key != received) break;
  }
  CHECK(received == 300);
  producer.join();
}
