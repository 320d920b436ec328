// How much a transport holds for its peers, when it stops reading, whom it dials, and its defaults.
#include <filesystem>
#include <iterator>
#include <thread>

#include <doctest/doctest.h>

#include "runtime/base/exit_code.h"
#include "runtime/transport/local_socket.h"
#include "tests/unit/runtime/raw_peer.h"

TEST_SUITE_BEGIN("runtime/transport/transport_flow");

namespace mlk::rt {
namespace {
namespace flow {

using namespace std::chrono_literals;
using test::RawListener;
using test::RawPeer;
using test::Subject;

constexpr PeerId zero{Role::worker, 0}, one{Role::worker, 1}, server{Role::server, 0};

TEST_CASE("the default options of a transport have the expected limits and times") {
  const TransportOptions options;
  CHECK(options.heartbeat == 500ms);
  CHECK(options.suspect_after == 5s);
  CHECK(options.suspected_after == 5s);
  CHECK(options.lost_after == 15s);
  CHECK(options.handshake_timeout == 5s);
  CHECK(options.retry_min == 50ms);
  CHECK(options.retry_max == 1s);
  CHECK(options.bind_patience == 10s);
  CHECK(options.max_strangers == 64);
  CHECK(options.max_payload == 8388608);
  CHECK(options.credit == 4194304);
  CHECK(options.unix_sockets);
  CHECK(options.suspended() >= 0ns);
  const Event event;
  CHECK(event.kind == Event::Kind::message);
  CHECK(event.incarnation == 0);
  CHECK_FALSE(event.proven);
  CHECK_FALSE(event.in_posted_buffer);
  CHECK_FALSE(event.checksum);
}

TEST_CASE("the error for an invalid address of this process or of a peer names the process and the address") {
  const auto reason = [](const auto& attempt) {
    try {
      attempt();
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::bad_configuration);
      return std::string(failure.what());
    }
    return std::string();
  };
  CHECK(reason([] { Subject(test::calm_options(), "nowhere"); }) == "MLK_ADDRESS is not host:port: nowhere");
  Subject subject;
  CHECK(reason([&] { subject.transport->dial(server, "nowhere:"); }) ==
        "the address of server/0 is not host:port: nowhere:");
  CHECK(subject.transport->self().id == Subject::id);
  CHECK(subject.transport->self().run == "run");
  CHECK(subject.transport->self().incarnation == Subject::incarnation);
  CHECK(subject.transport->self().address == subject.transport->address());
  CHECK(subject.transport->address().starts_with("127.0.0.1:"));
  CHECK(subject.transport->address() != "127.0.0.1:0");
}

TEST_CASE("a process logs that peers of its host use TCP if another process holds its UNIX socket") {
  std::string address;
  {
    const Subject probe;
    address = probe.transport->address();
  }
  const int squatter = listen_locally(*literal_address(*parse_host_port(address)));
  REQUIRE(squatter >= 0);
  TransportOptions options = test::calm_options();
  options.unix_sockets = true;
  Subject subject(options, address);
  CHECK(subject.said() == std::vector<std::string>{"another process holds the UNIX socket beside " + address +
                                                   ": peers of this host use TCP"});
  Subject by_tcp(test::calm_options());
  CHECK(by_tcp.said().empty());
  ::close(squatter);
}

TEST_CASE("a transport that has ended leaves no descriptor open") {
  const auto count = [] {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return std::distance(begin(entries), end(entries));
  };
  const auto before = count();
  {
    TransportOptions options = test::calm_options();
    options.unix_sockets = true;
    Subject subject(options);
    RawPeer peer = RawPeer::connected(subject, zero, 7);
    peer.dial();
    subject.next();
    CHECK(count() > before);
  }
  CHECK(test::eventually([&] { return count() <= before; }));  // the thread that looks up names ends later
}

TEST_CASE("send() to a peer that is not connected fails, although has_room() returns true for this peer") {
  Subject subject;
  CHECK_FALSE(subject.transport->send(zero, RawPeer::header(MessageType::push)));
  CHECK(subject.transport->has_room(zero));
  CHECK(subject.transport->held_bytes() == 0);
  CHECK(subject.transport->late_messages() == 0);
  subject.transport->count_late();
  CHECK(subject.transport->late_messages() == 1);
}

TEST_CASE("send() replaces sender, length and checksum of the given header by the right values") {
  Subject subject;
  RawPeer peer = RawPeer::connected(subject, zero, 7);
  peer.dial();
  subject.next();
  const Bytes payload(12, std::byte{3});
  Header given;
  given.type = MessageType::weights;
  given.flags = 5;
  given.data_type = DataType::float32;
  given.sender = one;
  given.key = 6;
  given.generation = 7;
  given.incarnation = 8;
  given.clock = 9;
  given.offset = 10;
  given.length = 1;
  given.sequence = 50;
  given.payload_crc = 1;
  Header expected = given;
  expected.sender = Subject::id;
  expected.incarnation = Subject::incarnation;
  expected.length = 12;
  expected.sequence = 1;
  expected.payload_crc = crc32c(payload.data(), payload.size());
  CHECK(subject.transport->send(zero, given, payload));
  auto got = peer.read();
  CHECK(got.header == expected);
  CHECK(got.payload == payload);
  CHECK(subject.transport->send(zero, given, payload, WhenFull::refuse, 77));  // the caller gives a checksum
  expected.sequence = 2;
  expected.payload_crc = 77;
  CHECK(peer.read().header == expected);
}

TEST_CASE("a send ends the connection if the queue would be larger than the credit by one byte") {
  for (const std::size_t over : {0u, 1u}) {
    CAPTURE(over);
    TransportOptions options = test::calm_options();
    options.credit = 1 << 20;
    Subject subject(options);
    RawPeer peer = RawPeer::connected(subject, zero, 7, 4096);
    peer.dial();
    subject.next();
    const auto send = [&](std::size_t size) {
      return subject.transport->send(zero, RawPeer::header(MessageType::push), Bytes(size), WhenFull::refuse);
    };
    while (subject.transport->held_bytes() == 0) REQUIRE(send(100'000));
    CHECK_FALSE(subject.transport->has_room(zero));
    const std::size_t before = subject.transport->held_bytes();
    REQUIRE(send(1000));
    CHECK(subject.transport->held_bytes() == before + header_size + 1000);
    const std::size_t left = options.credit - subject.transport->held_bytes();
    CHECK(send(left + over) == (over == 0));
    if (over == 0) {
      CHECK(subject.transport->held_bytes() == options.credit + header_size);
      CHECK_FALSE(send(0));
    }
    CHECK(subject.told() == "down worker/0 #7");
    CHECK(subject.transport->held_bytes() == 0);
    CHECK_FALSE(send(0));
  }
}

TEST_CASE("a send that waits for room returns when all earlier messages are written") {
  TransportOptions options = test::calm_options();
  options.credit = 1 << 20;
  Subject subject(options);
  RawPeer peer = RawPeer::connected(subject, zero, 7, 4096);
  peer.dial();
  subject.next();
  std::uint32_t sent = 0;
  const Bytes payload(3'000'000);  // more than the credit
  CHECK(subject.transport->send(zero, RawPeer::header(MessageType::push, sent++), payload));
  while (subject.transport->has_room(zero))
    CHECK(subject.transport->send(zero, RawPeer::header(MessageType::push, sent++), payload));
  std::thread reading([&] {
    for (std::uint32_t i = 0; i <= sent; ++i) {
      const auto got = peer.read();
      CHECK(got.header.key == i);
      CHECK(got.payload.size() == (i < sent ? payload.size() : 0));
    }
  });
  CHECK(subject.transport->send(zero, RawPeer::header(MessageType::push, sent)));
  CHECK(subject.transport->held_bytes() <= header_size);
  reading.join();
  CHECK(subject.told() == "room worker/0 #7");
  CHECK(subject.quiet());
}

TEST_CASE(
    "a transport reads at most one message beyond the credit of a peer, and reads more after receive()") {
  TransportOptions options = test::calm_options();
  options.credit = 64 * 1024;
  Subject subject(options);
  RawPeer peer = RawPeer::connected(subject, zero, 7);
  peer.dial();
  subject.next();
  const Bytes payload(1000);
  constexpr std::uint32_t count = 1000;
  std::thread sending([&] {
    for (std::uint32_t i = 0; i < count; ++i) peer.send(RawPeer::header(MessageType::push, i), payload);
  });
  // The messages up to the credit, and one more.
  const std::size_t each = header_size + payload.size(), full = (options.credit / each + 1) * each;
  REQUIRE(subject.comes_to_hold(full));
  RawPeer other = RawPeer::connected(subject, one, 8);
  other.dial();
  other.send(RawPeer::header(MessageType::goodbye));
  CHECK(other.is_closed());  // the transport still reads from other peers
  CHECK(subject.transport->held_bytes() == full);
  std::uint32_t received = 0;
  while (received < count) {
    const Event event = subject.next();
    CHECK(event.kind != Event::Kind::silent);
    if (event.kind != Event::Kind::message) continue;
    CHECK(event.header.key == received++);
    CHECK(event.payload == payload);
    CHECK(subject.transport->held_bytes() <= full);
  }
  sending.join();
  CHECK(subject.transport->held_bytes() == 0);
}

TEST_CASE("messages that a peer sent before the end of its connection are still received") {
  TransportOptions options = test::calm_options();
  options.credit = 64 * 1024;
  Subject subject(options);
  RawPeer peer = RawPeer::connected(subject, zero, 7, 4096);
  peer.dial();
  subject.next();
  for (std::uint32_t i = 0; i < 3; ++i) peer.send(RawPeer::header(MessageType::push, i), Bytes(30'000));
  REQUIRE(subject.comes_to_hold(90'000));
  while (subject.transport->send(zero, RawPeer::header(MessageType::push), Bytes(50'000), WhenFull::refuse)) {
  }
  for (std::uint32_t i = 0; i < 3; ++i)
    CHECK(subject.told() ==
          "message worker/0 #7 type 23 clock 0 key " + std::to_string(i) + " payload 30000");
  CHECK(subject.told() == "down worker/0 #7");
  RawPeer again = RawPeer::connected(subject, zero, 7);
  again.dial();
  CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
}

TEST_CASE("a peer that reconnects gets no new credit while its earlier messages wait") {
  TransportOptions options = test::calm_options();
  options.credit = 64 * 1024;
  Subject subject(options);
  RawPeer peer = RawPeer::connected(subject, zero, 7);
  peer.dial();
  subject.next();
  peer.send(RawPeer::header(MessageType::push, 1), Bytes(70'000));
  REQUIRE(subject.comes_to_hold(70'000));
  RawPeer again = RawPeer::connected(subject, zero, 7);
  again.dial();
  CHECK(peer.is_closed());  // the newer connection has replaced the older one
  again.send(RawPeer::header(MessageType::push, 2));
  RawPeer other = RawPeer::connected(subject, one, 8);
  other.dial();
  other.send(RawPeer::header(MessageType::goodbye));
  CHECK(other.is_closed());
  CHECK(subject.transport->held_bytes() == header_size + 70'000);
  CHECK(subject.told() == "message worker/0 #7 type 23 clock 0 key 1 payload 70000");
  for (std::string told; told != "message worker/0 #7 type 23 clock 0 key 2";) told = subject.told();
}

TEST_CASE("a peer is not silent while its messages wait for receive()") {
  TransportOptions options = test::calm_options();
  options.credit = 64 * 1024;
  options.suspect_after = 150ms;
  options.lost_after = 300ms;
  Subject subject(options);
  RawPeer peer = RawPeer::connected(subject, zero, 7), deaf = RawPeer::connected(subject, one, 8, 4096);
  peer.dial();
  CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
  peer.send(RawPeer::header(MessageType::push, 1), Bytes(70'000));
  REQUIRE(subject.comes_to_hold(70'000));
  // Meanwhile another peer, which reads nothing and sends nothing, is lost.
  deaf.dial();
  REQUIRE(test::eventually([&] { return subject.transport->send(one, RawPeer::header(MessageType::push)); }));
  while (subject.transport->held_bytes() <= header_size + 70'000)
    REQUIRE(
        subject.transport->send(one, RawPeer::header(MessageType::push), Bytes(20'000), WhenFull::refuse));
  REQUIRE(test::eventually([&] { return subject.transport->held_bytes() == header_size + 70'000; }));
  bool silent = false;
  for (std::string told; !told.starts_with("down worker/1");) {
    told = subject.told();
    silent = silent || told == "silent worker/0 #7";
  }
  CHECK_FALSE(silent);
}

TEST_CASE("several nudges end only one receive()") {
  Subject subject;
  RawPeer peer = RawPeer::connected(subject, zero, 7);
  peer.dial();
  subject.next();
  subject.transport->nudge();
  subject.transport->nudge();
  CHECK_FALSE(subject.transport->receive(std::chrono::steady_clock::now() + 1h));
  std::thread speaking([&] {
    std::this_thread::sleep_for(30ms);
    peer.send(RawPeer::header(MessageType::push, 1));
  });
  CHECK(subject.told() == "message worker/0 #7 type 23 clock 0 key 1");
  speaking.join();
}

TEST_CASE("a peer can be dialled by its name") {
  Subject subject;
  const RawListener listener;
  const auto port = parse_host_port(listener.address())->port;
  subject.transport->dial(server, "localhost:" + std::to_string(port));
  RawPeer peer = listener.accept(server, 7);
  peer.be_answered();
  CHECK(subject.told() == "up server/0 #7 at 192.0.2.7:7070");
}

TEST_CASE("a peer with an unknown host name delays no other peers, and can be dialled at another address") {
  Subject subject;
  const RawListener listener;
  subject.transport->dial(one, "no-such-host.invalid:1");
  subject.transport->dial(server, listener.address());
  RawPeer peer = listener.accept(server, 7);
  peer.be_answered();
  CHECK(subject.told() == "up server/0 #7 at 192.0.2.7:7070");
  subject.transport->dial(one, listener.address());  // the peer has another address now
  RawPeer other = listener.accept(one, 8);
  other.be_answered();
  CHECK(subject.told() == "up worker/1 #8 at 192.0.2.7:7070");
}

TEST_CASE("after its goodbye, a process dials no peer, accepts no peer and has no connections") {
  Subject subject;
  const RawListener listener;
  subject.transport->dial(server, listener.address());
  RawPeer peer = RawPeer::connected(subject, zero, 7), dialled = listener.accept(server, 8);
  peer.dial();
  CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
  std::thread ending([&] {
    CHECK(peer.read().header.clock == 3);
    char byte;
    CHECK(peer.has_something(test::raw_patience_ms));
    CHECK(::recv(peer.fd(), &byte, 1, 0) == 0);  // the stream has ended
    peer.hang_up();
  });
  subject.transport->send_goodbye(3);
  ending.join();
  dialled.read();
  CHECK(dialled.is_closed());
  RawPeer late = RawPeer::connected(subject, one, 9);
  late.say_hello();
  CHECK(subject.told() == "down worker/0 #7 proven");
  CHECK_FALSE(subject.transport->receive(std::chrono::steady_clock::now() + 50ms));
  CHECK_FALSE(late.has_something());
  CHECK_FALSE(listener.is_dialled());
}

TEST_CASE("a message that is received into a posted buffer has the checksum of the bytes in this buffer") {
  Subject subject;
  RawPeer peer = RawPeer::connected(subject, zero, 7);
  peer.dial();
  subject.next();
  const std::vector<float> values{1, 2, 3}, sums{11, 22, 33};
  std::vector<float> replaced(3), added{10, 20, 30};
  const auto expect = [&](std::uint32_t key, std::vector<float>& buffer, ReceiveMode how) {
    subject.transport->posted_receives().post({zero, MessageType::reduce, 0, 5, key},
                                              std::as_writable_bytes(std::span(buffer)), how);
  };
  expect(1, replaced, ReceiveMode::replace);
  expect(2, added, ReceiveMode::add);
  const auto send = [&](std::uint32_t key) {
    peer.send(RawPeer::header(MessageType::reduce, key, 5), std::as_bytes(std::span(values)));
  };
  const auto checksum = [](const std::vector<float>& of) {
    return std::to_string(crc32c(of.data(), of.size() * sizeof(float)));
  };
  const std::string message = "message worker/0 #7 type 70 clock 5 key ";
  send(1);
  CHECK(subject.told() == message + "1 in posted buffer checksum " + checksum(values));
  CHECK(replaced == values);
  send(2);
  CHECK(subject.told() == message + "2 in posted buffer checksum " + checksum(sums));
  CHECK(added == sums);
  send(3);  // no buffer was posted for it
  CHECK(subject.told() == message + "3 payload 12");
}

}  // namespace flow
}  // namespace
}  // namespace mlk::rt
