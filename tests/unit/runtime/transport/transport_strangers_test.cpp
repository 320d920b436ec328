// Which peers a transport accepts and which it refuses; the test's peers send exactly the wrong messages.
#include <netinet/tcp.h>
#include <sys/resource.h>

#include <doctest/doctest.h>

#include "runtime/transport/local_socket.h"
#include "runtime/transport/transport_impl.h"
#include "tests/unit/runtime/raw_peer.h"

TEST_SUITE_BEGIN("runtime/transport/transport_strangers");

namespace mlk::rt {
namespace {
namespace strangers {

using namespace std::chrono_literals;
using test::RawListener;
using test::RawPeer;
using test::Subject;

constexpr PeerId zero{Role::worker, 0}, one{Role::worker, 1}, server{Role::server, 0};

std::string closed_line(const std::string& remote, const std::string& why) {
  return "connection with " + remote + " closed: " + why;
}

// The last log line of the subject, once it has one.
std::string line_of(Subject& subject) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (subject.said().empty() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(1ms);
  return subject.said().empty() ? "" : subject.said().back();
}

int option_of(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  getsockopt(fd, level, name, &value, &size);
  return value;
}

void check_tuned(int fd) {
  CHECK(option_of(fd, IPPROTO_TCP, TCP_NODELAY) == 1);
  CHECK(option_of(fd, SOL_SOCKET, SO_KEEPALIVE) == 1);
  CHECK(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE) == 10);
  CHECK(option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL) == 5);
  CHECK(option_of(fd, IPPROTO_TCP, TCP_KEEPCNT) == 3);
}

TEST_CASE("a dialling peer gets a challenge with a proof, and is reported as up after its own proof") {
  Subject subject;
  RawPeer peer = RawPeer::connected(subject, zero, 7);
  peer.say_hello();
  const auto got = peer.read();
  Header expected;
  expected.type = MessageType::challenge;
  expected.sender = Subject::id;
  expected.incarnation = Subject::incarnation;
  expected.length = static_cast<std::uint32_t>(got.payload.size());
  expected.payload_crc = crc32c(got.payload.data(), got.payload.size());
  CHECK(got.header == expected);
  const auto challenge = read_challenge(got.header, got.payload);
  REQUIRE(challenge);
  CHECK(challenge->listener.address == subject.transport->address());
  CHECK(challenge->listener.nonce != Nonce{});
  CHECK(challenge->proof ==
        prove(test::raw_key(), Side::listener, "run", peer.introduction(), challenge->listener));
  CHECK(subject.quiet());
  peer.send(
      RawPeer::header(MessageType::proof),
      proof_payload(prove(test::raw_key(), Side::dialler, "run", peer.introduction(), challenge->listener)));
  CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
  check_tuned(test::subject_end(peer));
  peer.send(RawPeer::header(MessageType::push, 3, 4), Bytes(5));
  CHECK(subject.told() == "message worker/0 #7 type 23 clock 4 key 3 payload 5");
  CHECK(subject.said().empty());
}

TEST_CASE("a dialled peer gets a hello, and is reported as up after its answer") {
  Subject subject;
  const RawListener listener;
  subject.transport->dial(server, listener.address());
  RawPeer peer = listener.accept(server, 7);
  const auto hello = peer.read();
  CHECK(hello.header.type == MessageType::hello);
  CHECK(hello.header.sender == Subject::id);
  CHECK(hello.header.incarnation == Subject::incarnation);
  const auto dialler = read_hello(hello.header, hello.payload);
  REQUIRE(dialler);
  CHECK(dialler->address == subject.transport->address());
  peer.send(RawPeer::header(MessageType::challenge),
            challenge_payload(peer.introduction(),
                              prove(test::raw_key(), Side::listener, "run", *dialler, peer.introduction())));
  const auto proof = peer.read();
  CHECK(proof.header.type == MessageType::proof);
  CHECK(proof.header.sequence == 1);
  CHECK(read_proof(proof.payload) ==
        prove(test::raw_key(), Side::dialler, "run", *dialler, peer.introduction()));
  CHECK(subject.told() == "up server/0 #7 at 192.0.2.7:7070");
  check_tuned(test::subject_end(peer));
}

TEST_CASE("a stranger that sends a wrong message is closed, and the log names it with the reason") {
  struct Wrong {
    const char* why;
    void (*say)(RawPeer& peer);
  };
  const Wrong wrongs[] = {
      {"not a hello",
       [](RawPeer& peer) {
         peer.send(RawPeer::header(MessageType::proof), hello_payload(peer.introduction()));
       }},
      {"not a hello",
       [](RawPeer& peer) {
         Header header = RawPeer::header(MessageType::hello);
         header.sender = Subject::id;  // the identity of the process that it has dialled
         peer.send_as_it_is(header, hello_payload(peer.introduction()));
       }},
      {"it does not know the key of the run", [](RawPeer& peer) { peer.dial(test::raw_key('b')); }},
      {"it does not know the key of the run",
       [](RawPeer& peer) {
         peer.say_hello();
         const auto got = peer.read();
         const auto challenge = read_challenge(got.header, got.payload);
         // The right proof, in a message of another type.
         peer.send(RawPeer::header(MessageType::heartbeat),
                   proof_payload(prove(test::raw_key(), Side::dialler, "run", peer.introduction(),
                                       challenge->listener)));
       }},
      {"it does not know the key of the run",
       [](RawPeer& peer) {
         peer.say_hello();
         peer.read();
         peer.send(RawPeer::header(MessageType::proof), Bytes(31));
       }},
      {"it does not know the key of the run",
       [](RawPeer& peer) {
         peer.say_hello();
         const auto got = peer.read();
         const auto challenge = read_challenge(got.header, got.payload);
         peer.send(RawPeer::header(MessageType::proof), proof_payload(challenge->proof));  // sent back
       }},
      {"length beyond the limit",
       [](RawPeer& peer) { peer.send(RawPeer::header(MessageType::hello), Bytes(513)); }},
      {"not a hello", [](RawPeer& peer) { peer.send(RawPeer::header(MessageType::hello), Bytes(512)); }},
      {"not our protocol", [](RawPeer& peer) { peer.send_bytes(Bytes(64, std::byte{'G'})); }},
  };
  for (const Wrong& wrong : wrongs) {
    CAPTURE(wrong.why);
    Subject subject;
    RawPeer peer = RawPeer::connected(subject, zero, 7);
    wrong.say(peer);
    CHECK(line_of(subject) == closed_line(peer.own_name(), wrong.why));
    CHECK(peer.is_closed());
    CHECK(subject.quiet());
  }
}

TEST_CASE("a connection is closed and logged if the dialled process is another peer or has another key") {
  struct Wrong {
    const char* why;
    void (*say)(RawPeer& peer);
  };
  const Wrong wrongs[] = {
      {"not a challenge", [](RawPeer& peer) { peer.send(RawPeer::header(MessageType::proof), Bytes(100)); }},
      {"it does not know the key of the run", [](RawPeer& peer) { peer.answer(test::raw_key('b')); }},
      {"it is worker/1, not server/0", [](RawPeer& peer) { peer.answer(); }},
  };
  for (const Wrong& wrong : wrongs) {
    CAPTURE(wrong.why);
    Subject subject;
    const RawListener listener;
    subject.transport->dial(server, listener.address());
    RawPeer peer = listener.accept(one, 7);
    wrong.say(peer);
    CHECK(line_of(subject) == closed_line(listener.address(), wrong.why));
    CHECK(peer.is_closed());
    CHECK(subject.quiet());
  }
}

TEST_CASE(
    "a peer is disconnected if it sends a message in the name of another process, or a lane message without "
    "a descriptor") {
  struct Wrong {
    const char* why;
    MessageType type;
    PeerId sender;
    std::uint64_t incarnation;
  };
  const Wrong wrongs[] = {
      {"a message in the name of somebody else", MessageType::push, one, 7},
      {"a message in the name of somebody else", MessageType::push, {Role::server, 0}, 7},
      {"a message in the name of somebody else", MessageType::push, zero, 8},
      {"a message in the name of somebody else", MessageType::heartbeat, zero, 6},
      {"shared memory without its descriptor", MessageType::lane, zero, 7},
  };
  for (const Wrong& wrong : wrongs) {
    CAPTURE(wrong.why);
    Subject subject;
    RawPeer peer = RawPeer::connected(subject, zero, 7);
    peer.dial();
    CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
    Header header = RawPeer::header(wrong.type);
    header.sender = wrong.sender;
    header.incarnation = wrong.incarnation;
    peer.send_as_it_is(header);
    CHECK(subject.told() == "down worker/0 #7");
    CHECK(subject.said() == std::vector{closed_line(peer.own_name(), wrong.why)});
    CHECK(peer.is_closed());
  }
}

TEST_CASE("the log line for a refused process of this host has the process id") {
  TransportOptions options = test::calm_options();
  options.unix_sockets = true;
  Subject subject(options);
  const auto where = literal_address(*parse_host_port(subject.transport->address()));
  RawPeer peer(connect_locally(*where), zero, 7);
  Header header;
  header.type = MessageType::proof;
  peer.send_as_it_is(header);
  CHECK(line_of(subject) ==
        closed_line("process " + std::to_string(getpid()) + " of this host", "not a hello"));
  CHECK(peer.is_closed());
}

TEST_CASE("an older incarnation that comes back is refused with a goodbye that says that it is replaced") {
  Subject subject;
  RawPeer older = RawPeer::connected(subject, zero, 7);
  older.dial();
  CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
  RawPeer newer = RawPeer::connected(subject, zero, 8);
  newer.dial();
  CHECK(subject.told() == "down worker/0 #7 proven");
  CHECK(subject.told() == "up worker/0 #8 at 192.0.2.7:7070");
  RawPeer again = RawPeer::connected(subject, zero, 7);
  again.dial();
  for (RawPeer* peer : {&older, &again}) {
    const Header goodbye = peer->read().header;
    CHECK(goodbye.type == MessageType::goodbye);
    CHECK(goodbye.flags == 1);
    CHECK(goodbye.clock == 0);
    CHECK(goodbye.sender == Subject::id);
    CHECK(goodbye.incarnation == Subject::incarnation);
    CHECK(peer->is_closed());
  }
  CHECK(line_of(subject) == closed_line(again.own_name(), "an older incarnation of worker/0"));
  newer.send(RawPeer::header(MessageType::push, 1));
  CHECK(subject.told() == "message worker/0 #8 type 23 clock 0 key 1");
}

TEST_CASE(
    "a newer connection of the same process replaces the older one, which is closed without a message") {
  Subject subject;
  RawPeer older = RawPeer::connected(subject, zero, 7);
  older.dial();
  CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
  RawPeer newer = RawPeer::connected(subject, zero, 7);
  newer.dial();
  CHECK(subject.told() == "down worker/0 #7");
  CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
  REQUIRE(older.has_something(test::raw_patience_ms));
  char byte;
  CHECK(::recv(older.fd(), &byte, 1, 0) == 0);
  CHECK(subject.transport->send(zero, RawPeer::header(MessageType::push, 2)));
  CHECK(newer.read().header.key == 2);
  newer.send(RawPeer::header(MessageType::push, 1));
  CHECK(subject.told() == "message worker/0 #7 type 23 clock 0 key 1");
  CHECK(subject.said().empty());
}

TEST_CASE("when one peer is connected, slow handshakes with other peers continue, in both directions") {
  TransportOptions options = test::calm_options();
  options.heartbeat = 10ms;
  Subject subject(options);
  const RawListener slow, quick;
  subject.transport->dial(server, slow.address());
  RawPeer late = slow.accept(server, 5);
  RawPeer stranger = RawPeer::connected(subject, one, 6);
  subject.transport->dial(zero, quick.address());
  RawPeer peer = quick.accept(zero, 7);
  peer.be_answered();
  CHECK(subject.told() == "up worker/0 #7 at 192.0.2.7:7070");
  for (int beat = 0; beat < 3; ++beat) {  // the transport's clock has advanced
    const Header heartbeat = peer.read().header;
    CHECK(heartbeat.type == MessageType::heartbeat);
    CHECK(heartbeat.sequence == 2u + static_cast<std::uint32_t>(beat));
  }
  late.be_answered();
  CHECK(subject.told() == "up server/0 #5 at 192.0.2.7:7070");
  stranger.dial();
  CHECK(subject.told() == "up worker/1 #6 at 192.0.2.7:7070");
}

TEST_CASE("a stranger beyond the limit replaces the oldest stranger") {
  TransportOptions options = test::calm_options();
  options.max_strangers = 2;
  Subject subject(options);
  RawPeer known = RawPeer::connected(subject, server, 5);
  known.dial();
  CHECK(subject.told() == "up server/0 #5 at 192.0.2.7:7070");  // this peer is no stranger any more
  RawPeer first = RawPeer::connected(subject, zero, 7), second = RawPeer::connected(subject, one, 7);
  second.say_hello();
  CHECK(second.read().header.type == MessageType::challenge);
  CHECK_FALSE(first.has_something());
  RawPeer third = RawPeer::connected(subject, zero, 8);
  CHECK(first.is_closed());
  third.dial();
  CHECK(subject.told() == "up worker/0 #8 at 192.0.2.7:7070");
  CHECK_FALSE(second.has_something());
}

TEST_CASE("a peer has to wait if it connects while no descriptor is free, and is accepted later") {
  Subject subject;
  RawPeer known = RawPeer::connected(subject, zero, 7);
  known.dial();
  subject.next();
  const int waiting = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto where = literal_address(*parse_host_port(subject.transport->address()));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{3, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool connected = ::connect(waiting, where->get(), where->length) == 0;
  known.send(RawPeer::header(MessageType::push, 1));
  const std::string heard = subject.told();  // the event shows that the loop has polled the listener, too
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(connected);
  CHECK(heard == "message worker/0 #7 type 23 clock 0 key 1");
  RawPeer peer(waiting, one, 8);
  peer.dial();
  CHECK(subject.told() == "up worker/1 #8 at 192.0.2.7:7070");
}

TEST_CASE("RateLimit drops lines beyond the burst of a window, and returns their number for the next line") {
  RateLimit limit(2, 1000ms);
  const SteadyTime start{100h};
  CHECK(limit.admit(start) == 0);
  CHECK(limit.admit(start + 999ms) == 0);
  CHECK_FALSE(limit.admit(start + 999ms));
  CHECK_FALSE(limit.admit(start + 999ms));
  CHECK(limit.admit(start + 1000ms) == 2);
  CHECK(limit.admit(start + 1500ms) == 0);
  CHECK_FALSE(limit.admit(start + 1999ms));
  CHECK(limit.admit(start + 2000ms) == 1);
}

}  // namespace strangers
}  // namespace
}  // namespace mlk::rt
