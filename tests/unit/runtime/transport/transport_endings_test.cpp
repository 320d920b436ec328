// When a transport considers a peer silent, gone or dead, and what it does then.
#include <algorithm>
#include <atomic>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <thread>

#include <doctest/doctest.h>

#include "tests/unit/runtime/raw_peer.h"

TEST_SUITE_BEGIN("runtime/transport/transport_endings");

namespace mlk::rt {
namespace {
namespace endings {

using namespace std::chrono_literals;
using test::RawListener;
using test::RawPeer;
using test::Subject;

constexpr PeerId zero{Role::worker, 0}, one{Role::worker, 1}, server{Role::server, 0};

// From now on the peer's host looks as if it had lost power: it takes no packets and acknowledges none.
void cut_the_way(const RawPeer& peer) {
  sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop};
  REQUIRE(setsockopt(peer.fd(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
}

// All events up to and including `last`.
std::vector<std::string> told_until(Subject& subject, const std::string& last) {
  std::vector<std::string> all;
  do {
    all.push_back(subject.told());
  } while (all.back() != last);
  return all;
}

// Accepts the subject's next connection, and ends it with a reset.
void refuse_next(const RawListener& listener) {
  RawPeer peer = listener.accept(server, 7);
  peer.read();
  peer.reset();
}

TEST_CASE("a transport sends a heartbeat to a peer to which it has sent nothing for a while") {
  TransportOptions options = test::calm_options();
  options.heartbeat = 20ms;
  Subject subject(options);
  RawPeer peer = RawPeer::connected(subject, zero, 7);
  peer.dial();
  CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
  for (std::uint32_t beat = 1; beat <= 3; ++beat) {  // after the challenge
    Header expected = RawPeer::header(MessageType::heartbeat);
    expected.sender = Subject::id;
    expected.incarnation = Subject::incarnation;
    expected.sequence = beat;
    CHECK(peer.read().header == expected);
  }
  peer.send(RawPeer::header(MessageType::heartbeat));
  peer.send(RawPeer::header(MessageType::push, 1));
  CHECK(subject.told() == "message worker/0 #7 type 23 clock 0 key 1");  // no message for the heartbeat
}

TEST_CASE("a silent peer is reported once, is audible with its next frame, and can be silent again") {
  TransportOptions options = test::calm_options();
  options.suspect_after = 150ms;
  Subject subject(options);
  RawPeer peer = RawPeer::connected(subject, zero, 7);
  peer.dial();
  CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
  for (int time = 0; time < 2; ++time) {
    CHECK(subject.told() == "silent worker/0 #7");
    peer.send(RawPeer::header(MessageType::heartbeat));
    CHECK(subject.told() == "audible worker/0 #7");
  }
  // The end of a connection after a silence is no proof: the other host may only have closed the connection
  // of a live peer.
  CHECK(subject.told() == "silent worker/0 #7");
  peer.hang_up();
  CHECK(subject.told() == "down worker/0 #7");
}

TEST_CASE("a peer that sends from time to time is not reported as silent, even if another peer is silent") {
  TransportOptions options = test::calm_options();
  options.suspect_after = 500ms;
  Subject subject(options);
  RawPeer speaker = RawPeer::connected(subject, zero, 7), listener = RawPeer::connected(subject, one, 8);
  for (RawPeer* peer : {&speaker, &listener}) {
    peer->dial();
    subject.next();
  }
  std::atomic<bool> over{false};
  std::thread speaking([&] {
    while (!over) {
      speaker.send(RawPeer::header(MessageType::heartbeat));
      std::this_thread::sleep_for(10ms);
    }
  });
  const std::string first = subject.told();
  over = true;
  speaking.join();
  CHECK(first == "silent worker/1 #8");
}

TEST_CASE(
    "a silent peer is lost if its host does not acknowledge sent bytes, and otherwise stays connected") {
  TransportOptions options = test::calm_options();
  options.suspect_after = 150ms;
  options.lost_after = 300ms;
  Subject subject(options);
  // The subject sends nothing to `idle`. It sends a message to `slow`, whose host acknowledges the message.
  RawPeer idle = RawPeer::connected(subject, zero, 7), slow = RawPeer::connected(subject, one, 8),
          dead = RawPeer::connected(subject, server, 9);
  for (RawPeer* peer : {&idle, &slow, &dead}) {
    peer->dial();
    told_until(subject, "up " + to_string(peer->id()) +
                            (peer == &idle   ? " #7"
                             : peer == &slow ? " #8"
                                             : " #9") +
                            " at 192.0.2.7:7070");
  }
  CHECK(subject.transport->send(one, RawPeer::header(MessageType::push, 1)));
  cut_the_way(dead);
  CHECK(subject.transport->send(server, RawPeer::header(MessageType::push, 1)));
  const auto told = told_until(subject, "down server/0 #9");
  CHECK(std::ranges::count(told, "silent worker/0 #7") == 1);
  CHECK(std::ranges::count(told, "silent worker/1 #8") == 1);
  CHECK(std::ranges::count(told, "silent server/0 #9") == 1);
  CHECK(std::ranges::count_if(told, [](const auto& text) { return text.starts_with("down"); }) == 1);
}

// If only the way from the peer is cut, an end of the stream would look to the peer like the death of this
// process.
TEST_CASE("the socket of an abandoned connection is closed only when the peer has come back") {
  TransportOptions options = test::calm_options();
  options.suspect_after = 150ms;
  options.lost_after = 300ms;
  Subject subject(options);
  RawPeer peer = RawPeer::connected(subject, zero, 7);
  peer.dial();
  CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
  const Bytes payload(1'000'000);  // more than the sockets take
  int sent = 0;
  while (sent < 1000 && subject.transport->send(zero, RawPeer::header(MessageType::push, 1), payload)) ++sent;
  CHECK(sent < 1000);
  CHECK(told_until(subject, "down worker/0 #7").front() == "silent worker/0 #7");
  std::vector<std::byte> bytes(1 << 20);
  const auto receive = [&](int flags) { return ::recv(peer.fd(), bytes.data(), bytes.size(), flags); };
  ssize_t received = 0;
  while ((received = receive(MSG_DONTWAIT)) > 0) {
  }
  CHECK(received == -1);  // no more bytes arrive, but the stream has not ended
  RawPeer again = RawPeer::connected(subject, zero, 7);
  again.dial();
  CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
  while ((received = receive(0)) > 0) {
  }
  CHECK((received == 0 || errno == ECONNRESET));
}

TEST_CASE("if the kernel ends a connection after a timeout, this does not prove the death of the peer") {
  Subject subject;
  RawPeer peer = RawPeer::connected(subject, zero, 7);
  peer.dial();
  subject.next();
  const unsigned limit_ms = 100;
  REQUIRE(setsockopt(test::subject_end(peer), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms) ==
          0);
  cut_the_way(peer);
  CHECK(subject.transport->send(zero, RawPeer::header(MessageType::push, 1)));
  CHECK(subject.told() == "down worker/0 #7");
}

TEST_CASE("an end of the stream and a reset prove that the process is gone") {
  for (const bool by_reset : {false, true}) {
    CAPTURE(by_reset);
    Subject subject;
    RawPeer peer = RawPeer::connected(subject, zero, 7);
    peer.dial();
    subject.next();
    if (by_reset) {
      peer.reset();
    } else {
      peer.hang_up();
    }
    CHECK(subject.told() == "down worker/0 #7 proven");
  }
}

TEST_CASE("a goodbye reports the exit code, and then the end of the connection proves the death") {
  Subject subject;
  RawPeer peer = RawPeer::connected(subject, zero, 7);
  peer.dial();
  subject.next();
  peer.send(RawPeer::header(MessageType::goodbye, 0, 66));
  CHECK(subject.told() == "goodbye worker/0 #7 proven type 5 clock 66 key 0");
  CHECK(subject.told() == "down worker/0 #7 proven");
  CHECK(peer.is_closed());
}

TEST_CASE("a goodbye with `flag_replaced` gives the event `replaced`, whatever other flags it has") {
  Subject subject;
  RawPeer peer = RawPeer::connected(subject, zero, 7);
  peer.dial();
  subject.next();
  Header header = RawPeer::header(MessageType::goodbye);
  header.flags = 3;
  peer.send(header);
  CHECK(subject.told().starts_with("replaced worker/0 #7 proven"));
}

TEST_CASE(
    "a peer that was lost without proof counts as dead when the next connection to it is refused or reset") {
  for (const bool by_reset : {false, true}) {
    CAPTURE(by_reset);
    Subject subject;
    RawListener listener;
    subject.transport->dial(server, listener.address());
    {
      RawPeer peer = listener.accept(server, 7);
      peer.be_answered();
      CHECK(subject.told() == "up server/0 #7 at 192.0.2.7:7070");
      if (!by_reset) listener.close();
      peer.send_bytes(Bytes(header_size, std::byte{1}));
      CHECK(subject.told() == "down server/0 #7");
    }
    // A process that ends the next attempt at once with a reset is not the peer.
    if (by_reset) refuse_next(listener);
    CHECK(subject.told() == "down server/0 #7 proven");
    // The death is reported once.
    if (by_reset) {
      for (int attempt = 0; attempt < 3; ++attempt) refuse_next(listener);
      CHECK(subject.quiet());
    }
  }
}

TEST_CASE(
    "an attempt to connect that ends before the handshake, without a reset, does not prove the death of the "
    "peer") {
  Subject subject;
  const RawListener listener;
  subject.transport->dial(server, listener.address());
  {
    RawPeer peer = listener.accept(server, 7);
    peer.be_answered();
    CHECK(subject.told() == "up server/0 #7 at 192.0.2.7:7070");
    peer.send_bytes(Bytes(header_size, std::byte{1}));
    CHECK(subject.told() == "down server/0 #7");
  }
  for (int attempt = 0; attempt < 3; ++attempt) {
    RawPeer peer = listener.accept(server, 7);
    peer.read();  // otherwise the end would be a reset
  }
  RawPeer back = listener.accept(server, 8);
  back.be_answered();
  CHECK(subject.told() == "down server/0 #7 proven");  // a newer incarnation is the proof
  CHECK(subject.told() == "up server/0 #8 at 192.0.2.7:7070");
}

TEST_CASE(
    "after a lost peer has come back and has ended with proof, refused attempts do not report its death "
    "again") {
  Subject subject;
  RawListener listener;
  subject.transport->dial(server, listener.address());
  {
    RawPeer peer = listener.accept(server, 7);
    peer.be_answered();
    peer.send_bytes(Bytes(header_size, std::byte{1}));
    CHECK(subject.told() == "up server/0 #7 at 192.0.2.7:7070");
    CHECK(subject.told() == "down server/0 #7");
  }
  RawPeer back = listener.accept(server, 7);
  back.be_answered();
  CHECK(subject.told() == "up server/0 #7 at 192.0.2.7:7070");
  back.reset();
  CHECK(subject.told() == "down server/0 #7 proven");
  for (int attempt = 0; attempt < 3; ++attempt) refuse_next(listener);
  CHECK(subject.quiet());
}

TEST_CASE("a silent peer is closed and counts as dead if no process listens at its address") {
  TransportOptions options = test::calm_options();
  options.suspect_after = 150ms;
  Subject subject(options);
  RawListener listener;
  subject.transport->dial(server, listener.address());
  RawPeer peer = listener.accept(server, 7);
  peer.be_answered();
  CHECK(subject.told() == "up server/0 #7 at 192.0.2.7:7070");
  listener.close();
  CHECK(subject.told() == "silent server/0 #7");
  CHECK(subject.told() == "down server/0 #7 proven");
  CHECK(peer.is_closed());
}

TEST_CASE("a silent peer is dialled again, and the connection that works replaces the old one") {
  TransportOptions options = test::calm_options();
  options.suspect_after = 150ms;
  Subject subject(options);
  const RawListener listener;
  subject.transport->dial(server, listener.address());
  RawPeer half = listener.accept(server, 7);
  half.be_answered();
  CHECK(subject.told() == "up server/0 #7 at 192.0.2.7:7070");
  RawPeer whole = listener.accept(server, 7);
  CHECK(subject.told() == "silent server/0 #7");
  whole.be_answered();
  CHECK(subject.told() == "down server/0 #7");
  CHECK(subject.told() == "up server/0 #7 at 192.0.2.7:7070");
  CHECK(half.is_closed());
}

TEST_CASE("the connection of a silent peer stays if the peer is audible again") {
  TransportOptions options = test::calm_options();
  options.suspect_after = 150ms;
  Subject subject(options);
  const RawListener listener;
  subject.transport->dial(server, listener.address());
  RawPeer first = listener.accept(server, 7);
  first.be_answered();
  CHECK(subject.told() == "up server/0 #7 at 192.0.2.7:7070");
  RawPeer second = listener.accept(server, 7);
  CHECK(subject.told() == "silent server/0 #7");
  first.send(RawPeer::header(MessageType::heartbeat));
  CHECK(subject.told() == "audible server/0 #7");
  CHECK(second.is_closed());
}

TEST_CASE("a peer whose connection ended during a pause of this host is dead if it does not return in time") {
  std::atomic<std::chrono::nanoseconds> suspended{0ns};
  TransportOptions options = test::calm_options();
  options.suspected_after = 60s;
  options.handshake_timeout = 500ms;
  options.suspended = [&] { return suspended.load(); };
  Subject subject(options);
  RawPeer comes_back = RawPeer::connected(subject, zero, 7), stays_away = RawPeer::connected(subject, one, 8);
  for (RawPeer* peer : {&comes_back, &stays_away}) {
    peer->dial();
    subject.next();
  }
  suspended = 1h;
  comes_back.hang_up();
  CHECK(subject.told() == "down worker/0 #7");
  RawPeer back = RawPeer::connected(subject, zero, 7);
  back.dial();
  CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
  stays_away.hang_up();
  CHECK(subject.told() == "down worker/1 #8");
  CHECK(subject.told() == "down worker/1 #8 proven");
}

TEST_CASE("after a suspension of its host, a transport still reports a peer that becomes silent") {
  std::atomic<std::chrono::nanoseconds> suspended{0ns};
  TransportOptions options = test::calm_options();
  options.suspect_after = 150ms;
  options.suspended = [&] { return suspended.load(); };
  Subject subject(options);
  RawPeer peer = RawPeer::connected(subject, zero, 7);
  peer.dial();
  CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
  suspended = 1h;
  CHECK(subject.told() == "silent worker/0 #7");
}

TEST_CASE("a goodbye follows all earlier messages, even to a peer that reads slowly") {
  TransportOptions options = test::calm_options();
  options.credit = 64 << 20;
  Subject subject(options);
  RawPeer peer = RawPeer::connected(subject, zero, 7, 4096);
  peer.dial();
  subject.next();
  const Bytes payload(100'000, std::byte{3});
  std::uint32_t sent = 0;
  while (subject.transport->held_bytes() < 1'000'000) {
    REQUIRE(
        subject.transport->send(zero, RawPeer::header(MessageType::push, sent), payload, WhenFull::refuse));
    ++sent;
  }
  RawPeer stranger = RawPeer::connected(subject, one, 8);
  std::thread leaving([&] { subject.transport->send_goodbye(66); });
  CHECK(stranger.is_closed());  // the goodbye has begun
  for (std::uint32_t i = 0; i < sent; ++i) {
    const auto got = peer.read();
    CHECK(got.header.key == i);
    CHECK(got.payload == payload);
  }
  const Header goodbye = peer.read().header;
  CHECK(goodbye.type == MessageType::goodbye);
  CHECK(goodbye.clock == 66);
  CHECK(goodbye.flags == 0);
  CHECK(goodbye.sender == Subject::id);
  char byte;
  REQUIRE(peer.has_something(test::raw_patience_ms));
  CHECK(::recv(peer.fd(), &byte, 1, 0) == 0);
  peer.hang_up();
  leaving.join();
}

}  // namespace endings
}  // namespace
}  // namespace mlk::rt
