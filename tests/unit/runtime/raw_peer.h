// Peers of a transport that the test plays frame by frame, over sockets of its own.
#pragma once

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <poll.h>
#include <span>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/base/address.h"
#include "runtime/base/crc32c.h"
#include "runtime/transport/transport.h"

namespace mlk::test {

inline constexpr int raw_patience_ms = 20'000;
inline constexpr char raw_address[] = "192.0.2.7:7070";  // the address in the messages of a raw peer

inline rt::Key raw_key(char digit = 'a') { return rt::parse_key(std::string(64, digit)); }

// Options with which no timer fires during a test, unless the test changes an option.
inline rt::TransportOptions calm_options() {
  rt::TransportOptions options;
  options.heartbeat = options.suspect_after = options.suspected_after = options.lost_after =
      rt::Milliseconds(3'600'000);
  options.handshake_timeout = rt::Milliseconds(60'000);
  options.retry_min = options.retry_max = rt::Milliseconds(20);
  options.unix_sockets = false;
  return options;
}

// Whether the condition becomes true within the patience of these tests.
inline bool eventually(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(raw_patience_ms);
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// The transport of worker/9, and its log lines.
struct Subject {
  static constexpr rt::PeerId id{rt::Role::worker, 9};
  static constexpr std::uint64_t incarnation = 99;

  explicit Subject(const rt::TransportOptions& options = calm_options(),
                   const std::string& address = "127.0.0.1:0")
      : transport(std::make_unique<rt::Transport>(rt::Identity{"run", id, incarnation, address}, raw_key(),
                                                  options, [this](std::string_view line) {
                                                    const std::lock_guard lock(mutex);
                                                    lines.emplace_back(line);
                                                  })) {}

  std::vector<std::string> said() {
    const std::lock_guard lock(mutex);
    return lines;
  }
  rt::Event next() {
    auto event =
        transport->receive(std::chrono::steady_clock::now() + std::chrono::milliseconds(raw_patience_ms));
    REQUIRE(event);
    return std::move(*event);
  }
  // The next event as text, with all fields that are set.
  std::string told() { return describe(next()); }
  // Whether the transport holds at least so many bytes for peers within the patience.
  bool comes_to_hold(std::size_t bytes) {
    return eventually([&] { return transport->held_bytes() >= bytes; });
  }
  // Whether no event waits now.
  bool quiet() { return !transport->receive({}); }

  static std::string describe(const rt::Event& event) {
    static constexpr std::array<const char*, 8> kinds = {"up",      "down",    "silent",   "audible",
                                                         "message", "goodbye", "replaced", "room"};
    std::string text = std::string(kinds.at(static_cast<std::size_t>(event.kind))) + " " +
                       to_string(event.peer) + " #" + std::to_string(event.incarnation);
    if (!event.address.empty()) text += " at " + event.address;
    if (event.proven) text += " proven";
    if (!(event.header == rt::Header()))
      text += " type " + std::to_string(static_cast<int>(event.header.type)) + " clock " +
              std::to_string(event.header.clock) + " key " + std::to_string(event.header.key);
    if (!event.payload.empty()) text += " payload " + std::to_string(event.payload.size());
    if (event.in_posted_buffer) text += " in posted buffer";
    if (event.checksum) text += " checksum " + std::to_string(*event.checksum);
    return text;
  }

  std::mutex mutex;
  std::vector<std::string> lines;
  std::unique_ptr<rt::Transport> transport;
};

// The other end of one connection of a Subject.
class RawPeer {
 public:
  RawPeer(int fd, rt::PeerId id, std::uint64_t incarnation) : fd_(fd), id_(id), incarnation_(incarnation) {
    REQUIRE(fd >= 0);
  }
  ~RawPeer() { hang_up(); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  // Connects, and sends nothing.
  static RawPeer connected(const Subject& subject, rt::PeerId id, std::uint64_t incarnation,
                           int receive_buffer = 0) {
    const auto where = rt::literal_address(*rt::parse_host_port(subject.transport->address()));
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer > 0) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    REQUIRE(::connect(fd, where->get(), where->length) == 0);
    return RawPeer(fd, id, incarnation);
  }

  int fd() const { return fd_; }
  rt::PeerId id() const { return id_; }
  std::string own_name() const {
    rt::SocketAddress address;
    address.length = sizeof address.storage;
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address.storage), &address.length);
    return rt::to_string(address);
  }
  void hang_up() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  // Ends the connection with a reset.
  void reset() {
    const linger at_once{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    hang_up();
  }

  void send_bytes(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      REQUIRE(sent > 0);
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
  }
  static rt::Header header(rt::MessageType type, std::uint32_t key = 0, std::uint64_t clock = 0) {
    rt::Header header;
    header.type = type;
    header.key = key;
    header.clock = clock;
    return header;
  }
  void send(rt::Header header, std::span<const std::byte> payload = {}) {
    header.sender = id_;
    header.incarnation = incarnation_;
    send_as_it_is(header, payload);
  }
  void send_as_it_is(rt::Header header, std::span<const std::byte> payload = {}) {
    header.length = static_cast<std::uint32_t>(payload.size());
    header.sequence = sent_++;
    header.payload_crc = rt::crc32c(payload.data(), payload.size());
    rt::Bytes frame;
    rt::append(frame, rt::encode(header));
    rt::append(frame, payload);
    send_bytes(frame);
  }

  struct Received {
    rt::Header header;
    rt::Bytes payload;
  };
  Received read() {
    std::array<std::byte, rt::header_size> head;
    REQUIRE(fill(head));
    Received got;
    REQUIRE(rt::decode(head, 64u << 20, got.header) == rt::WireFault::none);
    got.payload.resize(got.header.length);
    REQUIRE(fill(got.payload));
    return got;
  }
  // Whether the other end has closed the connection. Skips the bytes that it sent before.
  bool is_closed() {
    std::array<std::byte, 4096> rest;
    while (true) {
      const auto got = take(rest);
      if (got <= 0) return got == 0 || errno == ECONNRESET;
    }
  }
  // Whether unread bytes, or the end of the connection, have arrived.
  bool has_something(int wait_ms = 0) const {
    pollfd entry{fd_, POLLIN, 0};
    return ::poll(&entry, 1, wait_ms) == 1;
  }

  rt::Introduction introduction() const {
    rt::Introduction self{id_, incarnation_, raw_address, {}};
    self.nonce.fill(std::byte{5});
    return self;
  }
  // Dials: sends a hello, reads the challenge, and sends a proof.
  void dial(const rt::Key& key = raw_key()) {
    say_hello();
    prove_itself(key);
  }
  void say_hello() { send(header(rt::MessageType::hello), hello_payload(introduction())); }
  void prove_itself(const rt::Key& key = raw_key()) {
    const Received got = read();
    const auto challenge = rt::read_challenge(got.header, got.payload);
    REQUIRE(challenge);
    send(header(rt::MessageType::proof),
         rt::proof_payload(rt::prove(key, rt::Side::dialler, "run", introduction(), challenge->listener)));
  }
  // For a peer that was dialled: answers the hello.
  void answer(const rt::Key& key = raw_key()) {
    const Received got = read();
    const auto dialler = rt::read_hello(got.header, got.payload);
    REQUIRE(dialler);
    send(header(rt::MessageType::challenge),
         rt::challenge_payload(introduction(),
                               rt::prove(key, rt::Side::listener, "run", *dialler, introduction())));
  }
  void be_answered(const rt::Key& key = raw_key()) {
    answer(key);
    CHECK(read().header.type == rt::MessageType::proof);
  }

 private:
  ssize_t take(std::span<std::byte> buffer) const {
    if (!has_something(raw_patience_ms)) {
      errno = ETIMEDOUT;
      return -1;
    }
    return ::recv(fd_, buffer.data(), buffer.size(), 0);
  }
  bool fill(std::span<std::byte> buffer) const {
    while (!buffer.empty()) {
      const auto got = take(buffer);
      if (got <= 0) return false;
      buffer = buffer.subspan(static_cast<std::size_t>(got));
    }
    return true;
  }

  int fd_;
  const rt::PeerId id_;
  const std::uint64_t incarnation_;
  std::uint32_t sent_ = 0;
};

// A listening socket for a Subject to dial.
class RawListener {
 public:
  RawListener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto where = rt::literal_address({"127.0.0.1", 0});
    REQUIRE(::bind(fd_, where->get(), where->length) == 0);
    REQUIRE(::listen(fd_, 16) == 0);
    rt::SocketAddress bound;
    bound.length = sizeof bound.storage;
    getsockname(fd_, reinterpret_cast<sockaddr*>(&bound.storage), &bound.length);
    address_ = rt::to_string(bound);
  }
  ~RawListener() { close(); }
  RawListener(const RawListener&) = delete;
  RawListener& operator=(const RawListener&) = delete;

  const std::string& address() const { return address_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  RawPeer accept(rt::PeerId id, std::uint64_t incarnation) const {
    REQUIRE(is_dialled(raw_patience_ms));
    return RawPeer(accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC), id, incarnation);
  }
  bool is_dialled(int wait_ms = 0) const {
    pollfd entry{fd_, POLLIN, 0};
    return ::poll(&entry, 1, wait_ms) == 1;
  }

 private:
  int fd_;
  std::string address_;
};

// The Subject's own socket of a TCP connection with this peer, found among the descriptors of this process.
inline int subject_end(const RawPeer& peer) {
  const std::string name = peer.own_name();
  for (int fd = 3; fd < 1024; ++fd) {
    rt::SocketAddress other;
    other.length = sizeof other.storage;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&other.storage), &other.length) == 0 &&
        other.storage.ss_family == AF_INET && rt::to_string(other) == name)
      return fd;
  }
  FAIL("no such socket");
  return -1;
}

}  // namespace mlk::test
