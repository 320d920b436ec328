// Bytes and texts on which other processes and people rely: headers, proofs, keys, names and addresses.
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "runtime/base/address.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/exit_code.h"
#include "runtime/base/hmac.h"
#include "runtime/base/listen.h"
#include "runtime/base/payload.h"
#include "runtime/base/stop_signal.h"
#include "runtime/ps/machines/leases.h"
#include "runtime/transport/dialer.h"
#include "runtime/transport/handshake.h"
#include "runtime/transport/local_socket.h"
#include "runtime/transport/posted_receives.h"
#include "tests/unit/runtime/raw_peer.h"
#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/transport/wire_texts");

namespace mlk::rt {
namespace {
namespace texts {

using namespace std::chrono_literals;

TEST_CASE("each field of a header has its place, little endian, with the checksum of all fields at the end") {
  Header header;
  header.type = MessageType::push;
  header.flags = 0x21;
  header.data_type = DataType::float32;
  header.sender = {Role::server, 0x345678};
  header.key = 0x01020304;
  header.generation = 0x1112131415161718;
  header.incarnation = 0x2122232425262728;
  header.clock = 0x3132333435363738;
  header.offset = 0x4142434445464748;
  header.length = 0x51525354;
  header.sequence = 0x61626364;
  header.payload_crc = 0x71727374;
  const std::array<int, 60> expected = {
      'M',  'L',  'K',  '1',  1,    23,   0x21, 1,    0x78, 0x56, 0x34, 2,    4,    3,    2,
      1,    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23,
      0x22, 0x21, 0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, 0x48, 0x47, 0x46, 0x45, 0x44,
      0x43, 0x42, 0x41, 0x54, 0x53, 0x52, 0x51, 0x64, 0x63, 0x62, 0x61, 0x74, 0x73, 0x72, 0x71};
  const auto bytes = encode(header);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::to_integer<int>(bytes[i]) == expected[i]);
  }
  const std::uint32_t checksum = crc32c(bytes.data(), 60);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(std::to_integer<std::uint32_t>(bytes[60 + i]) == (checksum >> (8 * i) & 0xff));
  header.sender = {Role::worker, 0xff123456};  // a rank has 24 bits
  Header decoded;
  CHECK(decode(encode(header), ~0u, decoded) == WireFault::none);
  CHECK(decoded.sender == PeerId{Role::worker, 0x123456});
}

TEST_CASE("decoding names the first fault of a header") {
  struct Wrong {
    std::size_t at;
    WireFault fault;
    const char* text;
  };
  for (const Wrong& wrong : {Wrong{0, WireFault::magic, "not our protocol"},
                             Wrong{4, WireFault::version, "another version of the protocol"},
                             Wrong{20, WireFault::checksum, "wrong checksum"}}) {
    auto bytes = encode({});
    bytes[wrong.at] ^= std::byte{1};
    Header decoded;
    CHECK(decode(bytes, 100, decoded) == wrong.fault);
    CHECK(describe(wrong.fault) == wrong.text);
  }
  CHECK(describe(WireFault::none) == "no fault");
  CHECK(describe(WireFault::type) == "unknown type of message");
  CHECK(describe(WireFault::role) == "unknown role");
  CHECK(describe(WireFault::length) == "length beyond the limit");
  CHECK(describe(WireFault::lane) == "shared memory that is not as it should be");
  CHECK(describe(static_cast<WireFault>(99)).empty());
  Header header, decoded;
  header.data_type = static_cast<DataType>(2);
  CHECK(decode(encode(header), 100, decoded) == WireFault::type);
  header = {};
  for (const int role : {0, 3}) {
    header.sender.role = static_cast<Role>(role);
    CHECK(decode(encode(header), 100, decoded) == WireFault::role);
  }
  header = {};
  header.length = 5;  // not a multiple of a float, but the type is bytes
  CHECK(decode(encode(header), 5, decoded) == WireFault::none);
  CHECK(decoded == header);
}

TEST_CASE("the types of messages are in three ranges, and no type outside of them is known") {
  for (int type = 0; type < 256; ++type) {
    CAPTURE(type);
    const bool known = (type >= 1 && type <= 6) || (type >= 16 && type <= 33) || (type >= 64 && type <= 72);
    CHECK_MESSAGE(is_known(static_cast<MessageType>(type)) == known,
                  "a new type: name it in is_known() of wire.cpp, and its number here");
  }
}

TEST_CASE("the name of a peer is its role and rank") {
  CHECK(to_string(PeerId{Role::worker, 3}) == "worker/3");
  CHECK(to_string(PeerId{Role::server, 0}) == "server/0");
  CHECK(to_string(PeerId()) == "worker/0");
}

TEST_CASE("a proof is the HMAC of the side, the run and both introductions, in this order") {
  const Key key = parse_key(std::string(64, '7'));
  Introduction dialler{{Role::worker, 2}, 11, "one:1", {}}, listener{{Role::server, 3}, 12, "two:2", {}};
  dialler.nonce.fill(std::byte{5});
  listener.nonce.fill(std::byte{6});
  for (const bool by_listener : {true, false}) {
    PayloadWriter text;
    text.text(by_listener ? "mlk listener 1" : "mlk dialler 1").text("run");
    text.put<std::uint8_t>(1).put<std::uint32_t>(2).put<std::uint64_t>(11).text("one:1").raw(dialler.nonce);
    text.put<std::uint8_t>(2).put<std::uint32_t>(3).put<std::uint64_t>(12).text("two:2").raw(listener.nonce);
    CHECK(prove(key, by_listener ? Side::listener : Side::dialler, "run", dialler, listener) ==
          hmac_sha256(key, text.bytes()));
  }
}

TEST_CASE("a key uses all hexadecimal digits, in both cases, with any white space around them") {
  const std::string digits = "0123456789abcdefABCDEF9876543210" + std::string(32, '0');
  const std::array<int, 16> expected = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                        0xab, 0xcd, 0xef, 0x98, 0x76, 0x54, 0x32, 0x10};
  for (const std::string& text : {digits, " \t\r\n" + digits + "\n\r\t "}) {
    const Key key = parse_key(text);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::to_integer<int>(key[i]) == expected[i]);
    CHECK(key[31] == std::byte{0});
  }
  const auto reason = [](const std::string& text) {
    try {
      parse_key(text);
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::bad_configuration);
      return std::string(failure.what());
    }
    return std::string();
  };
  const std::string none = "the key of the run is not 64 hexadecimal digits";
  for (const char bad : {'/', ':', '@', 'G', '`', 'g', ' ', '\0'}) {
    CHECK(reason(digits.substr(0, 63) + bad) == none);
    CHECK(reason(digits.substr(0, 62) + bad + "0") == none);
  }
  CHECK(reason("") == none);
  CHECK(reason(" \n\t\r") == none);
  CHECK(reason(digits).empty());
}

TEST_CASE("the key of a run is read from its file, and the error for a missing file names it") {
  const test::TemporaryFolder folder;
  test::write_file(folder / "key", std::string(64, 'c') + "\n");
  CHECK(load_key(folder / "key") == parse_key(std::string(64, 'c')));
  test::write_file(folder / "empty", "");
  test::write_file(folder / "long", std::string(300, 'c'));
  for (const char* name : {"none", "empty"}) {
    try {
      load_key(folder / name);
      FAIL("it was read");
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::bad_configuration);
      CHECK(failure.what() == "cannot read the key of the run: " + (folder / name));
    }
  }
  CHECK_THROWS_AS(load_key(folder / "long"), Failure);
  CHECK(random_nonce() != random_nonce());
}

TEST_CASE("a text in a payload is cut at 65535 bytes, and reads beyond the end give zeros or nothing") {
  const Bytes bytes = PayloadWriter().text(std::string(70'000, 'x')).put<std::uint8_t>(9).bytes();
  CHECK(bytes.size() == 2 + 65535 + 1);
  PayloadReader reader(bytes);
  CHECK(reader.left() == bytes.size());
  CHECK(reader.text() == std::string(65535, 'x'));
  CHECK(reader.left() == 1);
  CHECK(reader.ok());
  CHECK_FALSE(reader.complete());
  CHECK(reader.get<std::uint8_t>() == 9);
  CHECK(reader.complete());
  CHECK(reader.get<std::uint16_t>() == 0);
  CHECK_FALSE(reader.ok());
  PayloadReader failed(bytes);
  CHECK(failed.raw(bytes.size() + 1).empty());
  CHECK(failed.raw(1).empty());  // also the byte that was there
  CHECK(failed.get<std::uint8_t>() == 0);
  CHECK(failed.text().empty());
  CHECK(PayloadReader({}).complete());
  Bytes all;
  append(all, {});
  CHECK(all.empty());
  append(all, Bytes(2, std::byte{1}));
  append(all, Bytes(1, std::byte{2}));
  CHECK(all == Bytes{std::byte{1}, std::byte{1}, std::byte{2}});
}

TEST_CASE("a frame is received into the last buffer that was posted with the same five fields") {
  PostedReceives posted_receives;
  std::array<std::byte, 4> first{}, second{};
  const ReceiveKey key{{Role::worker, 1}, MessageType::push, 2, 3, 4};
  CHECK(posted_receives.epoch() == 0);
  posted_receives.post(key, first);
  posted_receives.post(key, second, ReceiveMode::add);
  for (const ReceiveKey& other : {ReceiveKey{{Role::server, 1}, MessageType::push, 2, 3, 4},
                                  ReceiveKey{{Role::worker, 2}, MessageType::push, 2, 3, 4},
                                  ReceiveKey{{Role::worker, 1}, MessageType::pull, 2, 3, 4},
                                  ReceiveKey{{Role::worker, 1}, MessageType::push, 9, 3, 4},
                                  ReceiveKey{{Role::worker, 1}, MessageType::push, 2, 9, 4},
                                  ReceiveKey{{Role::worker, 1}, MessageType::push, 2, 3, 9}})
    CHECK_FALSE(posted_receives.claim(other, 4));
  CHECK_FALSE(posted_receives.claim(key, 5));
  const auto ticket = posted_receives.claim(key, 4);
  REQUIRE(ticket);
  CHECK(ticket->buffer.data() == second.data());
  CHECK(ticket->how == ReceiveMode::add);
  CHECK(ticket->epoch == 0);
  posted_receives.post(key, first);
  {
    const PostedReceivesGuard guard(posted_receives);
  }
  CHECK(posted_receives.epoch() == 1);
  CHECK_FALSE(posted_receives.claim(key, 4));
  posted_receives.post(key, first);
  const auto next = posted_receives.claim(key, 4);
  REQUIRE(next);
  CHECK(next->how == ReceiveMode::replace);
  CHECK(next->epoch == 1);
  CHECK(posted_receives.sending([] { return 7; }) == 7);
}

TEST_CASE("hosts and ports are parsed and printed as they are written") {
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

TEST_CASE("names are looked up one after the other, and each answer has the number of its request") {
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

TEST_CASE("listen_at() listens at an address or, for a name, at the port on all interfaces") {
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

TEST_CASE("if another process holds an address, listen_at() tries again until the address is free") {
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

TEST_CASE("an incarnation is hashed to the first eight bytes of its SHA-256") {
  CHECK(hash_incarnation("a") == 0xcabd1bca128197ca);
  CHECK(hash_incarnation("") == 0x141cfc9842c4b0e3);
}

TEST_CASE(
    "next_round() is the time of the peer that is due first, and ignores peers whose round is under way") {
  const Dialer::Time start{};
  constexpr PeerId one{Role::worker, 1}, two{Role::worker, 2}, three{Role::worker, 3};
  Dialer dialer(50ms, 400ms);
  CHECK_FALSE(dialer.next_round());
  CHECK(dialer.find(one) == nullptr);
  dialer.add(one, {"a", 1}, start + 5s);
  dialer.add(two, {"b", 2}, start + 3s);
  dialer.add(three, {"c", 3}, start + 4s);
  CHECK(dialer.next_round() == start + 3s);
  CHECK(dialer.due(start + 2s).empty());
  CHECK(dialer.due(start + 4s) == std::vector{two, three});
  CHECK(dialer.next_round() == start + 5s);
  dialer.add(two, {"other", 9}, start + 1s);  // the peer is busy: its round continues
  CHECK(dialer.next_round() == start + 5s);
  CHECK(dialer.find(two)->host == "other");
  CHECK(dialer.find(two)->port == 9);
  dialer.add(one, {"a", 1}, start + 1s);  // sooner
  CHECK(dialer.next_round() == start + 1s);
  // Once a peer is connected, the results of its attempts no longer count.
  dialer.attempts(three, 1, start + 4s);
  dialer.connected(three);
  CHECK_FALSE(dialer.attempt_over(three, Dialer::Outcome::refused, start + 4s));
  CHECK(dialer.next_round() == start + 1s);
  // For a peer that is not dialled, none of these calls has an effect.
  constexpr PeerId nobody{Role::server, 9};
  dialer.attempts(nobody, 0, start);
  dialer.connected(nobody);
  dialer.lost(nobody, start);
  CHECK_FALSE(dialer.attempt_over(nobody, Dialer::Outcome::refused, start));
  CHECK(dialer.next_round() == start + 1s);
}

TEST_CASE("a refusal counts only in its own round, and a round may end without a proof") {
  const Dialer::Time start{};
  constexpr PeerId peer{Role::worker, 1};
  Dialer dialer(50ms, 400ms);
  dialer.add(peer, {"a", 1}, start);
  for (const bool refused : {false, true, false}) {
    const Dialer::Time now = *dialer.next_round();
    CHECK(dialer.due(now).size() == 1);
    dialer.attempts(peer, 2, now);
    CHECK_FALSE(dialer.attempt_over(peer, Dialer::Outcome::refused, now));
    CHECK_FALSE(dialer.next_round());
    const auto outcome = refused ? Dialer::Outcome::refused : Dialer::Outcome::failed;
    CHECK(dialer.attempt_over(peer, outcome, now) == refused);
    CHECK(dialer.next_round());
  }
}

Config leased(bool sync, int workers, std::uint64_t steps, std::optional<int> staleness = {}) {
  Config config;
  config.consistency = {sync, staleness};
  config.workers = {workers, 1};
  config.data.batch = 10;
  config.steps = steps;
  return config;
}

TEST_CASE("a worker that asks again loses its slice, and gets the first open slice") {
  Leases leases(leased(true, 2, 5));
  CHECK_FALSE(leases.grant(0));  // the worker has not joined
  leases.join(0);
  leases.join(1);
  CHECK(leases.grant(0)->slice == 0);
  CHECK(leases.grant(0)->slice == 0);
  CHECK(leases.grant(1)->slice == 1);
  CHECK_FALSE(leases.done(0, 0, 1));  // the slice of another worker
  CHECK_FALSE(leases.done(0, 1, 0));  // a slice of another step
  CHECK(leases.step() == 0);
  CHECK_FALSE(leases.done(0, 0, 0));
  CHECK(leases.done(1, 0, 1));
  CHECK(leases.step() == 1);
  CHECK(leases.position() == 20);
  const auto next = leases.grant(1);
  CHECK(next->clock == 1);
  CHECK(next->slice == 0);
  CHECK(next->position == 20);
  leases.leave(1);
  leases.leave(1);
  leases.join(1);
  CHECK(leases.grant(0)->slice == 0);  // the slice is open again
  CHECK(leases.grant(1)->slice == 1);
}

TEST_CASE("with async a restart voids all leases, continues from its position, and loses no samples") {
  Leases leases(leased(false, 2, 4));
  leases.join(0);
  leases.join(1);
  leases.grant(0);
  leases.grant(1);
  leases.restart(2, 300);
  CHECK(leases.step() == 2);
  CHECK(leases.position() == 300);
  CHECK(leases.lost_samples() == 0);
  const auto first = leases.grant(0), second = leases.grant(1);
  REQUIRE(first);
  REQUIRE(second);  // two steps are left, and no lease is granted
  CHECK(first->clock == 2);
  CHECK(first->position == 300);
  CHECK(second->position == 310);
  CHECK_FALSE(leases.grant(2));
  CHECK(leases.done(0, 2, 0));
  CHECK(leases.position() == 310);
  CHECK_FALSE(leases.finished());
  CHECK(leases.done(1, 2, 0));
  CHECK(leases.position() == 320);
  CHECK(leases.finished());
  leases.count_lost(7);
  CHECK(leases.lost_samples() == 7);
}

TEST_CASE("a wait without a signal ends after its time, and the descriptor is closed with the object") {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const auto count = [] {
      const std::filesystem::directory_iterator entries("/proc/self/fd");
      return std::distance(begin(entries), end(entries));
    };
    const auto before = count();
    {
      const StopSignal stop;
      if (stop.wait(0ms) || stop.wait(20ms) || stop.wait(-5ms)) _exit(1);
      if (count() != before + 1) _exit(2);
    }
    kill(getpid(), SIGTERM);  // the signal stays blocked
    _exit(count() == before ? 42 : 3);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 42);
}

TEST_CASE("only one process can listen beside an address, and a failed attempt leaves no descriptor open") {
  const auto count = [] {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return std::distance(begin(entries), end(entries));
  };
  const auto at = *literal_address({"127.201.9.1", 7171});
  const auto before = count();
  const int listener = listen_locally(at);
  REQUIRE(listener >= 0);
  CHECK(listen_locally(at) == -1);
  CHECK(connect_locally(*literal_address({"127.201.9.2", 7171})) == -1);
  CHECK(accept_locally(listener) == -1);
  CHECK(errno == EAGAIN);
  CHECK(test::eventually([&] { return count() <= before + 1; }));
  // IPv6, and all interfaces of it.
  const int six = listen_locally(*literal_address({"::", 7272}));
  REQUIRE(six >= 0);
  const int caller = connect_locally(*literal_address({"::1", 7272}));
  CHECK(caller >= 0);
  CHECK(is_of_this_host(*literal_address({"127.255.0.1", 1})));
  for (const int fd : {listener, six, caller}) ::close(fd);
  CHECK(test::eventually([&] { return count() <= before; }));
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  CHECK_FALSE(peer_process(pipe_ends[0]));
  for (const int fd : pipe_ends) ::close(fd);
}

}  // namespace texts
}  // namespace
}  // namespace mlk::rt
