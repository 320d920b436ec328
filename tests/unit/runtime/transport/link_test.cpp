// One link over a pair of sockets: what it writes, queues and reports, to epoll and to its caller.
#include "runtime/transport/link.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/base/crc32c.h"

TEST_SUITE_BEGIN("runtime/transport/link");

namespace mlk::rt {
namespace {
namespace links {
constexpr std::size_t no_limit = ~std::size_t{0};

struct Ends {
  int epoll = epoll_create1(EPOLL_CLOEXEC), other = -1;
  std::unique_ptr<Link> link;

  explicit Ends(Medium medium) {
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    other = fds[1];
    link = std::make_unique<Link>(fds[0], epoll, 42, "the other", medium);
  }
  ~Ends() {
    hang_up();
    ::close(epoll);
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  void hang_up() {
    if (other >= 0) ::close(std::exchange(other, -1));
  }
  // The events that epoll reports of the link now.
  std::uint32_t reported() const {
    epoll_event event{};
    if (epoll_wait(epoll, &event, 1, 0) == 0) return 0;
    const std::uint64_t number = event.data.u64;
    CHECK(number == 42);
    return std::uint32_t{event.events};
  }
  // The bytes that have arrived at the other end so far.
  Bytes come() const {
    Bytes all;
    std::array<std::byte, 65536> part;
    while (true) {
      const auto got = ::recv(other, part.data(), part.size(), MSG_DONTWAIT);
      if (got <= 0) return all;
      append(all, std::span(part).first(static_cast<std::size_t>(got)));
    }
  }
};

Header some_header(MessageType type = MessageType::push) {
  Header header;
  header.type = type;
  header.sender = {Role::server, 3};
  header.incarnation = 77;
  header.key = 5;
  return header;
}

// The bytes of the frame as they should be on the wire.
Bytes frame_of(std::uint32_t sequence, std::span<const std::byte> payload, std::uint32_t checksum,
               bool in_lane = false) {
  Header header = some_header();
  header.sequence = sequence;
  header.length = static_cast<std::uint32_t>(payload.size());
  header.payload_crc = checksum;
  Bytes bytes;
  append(bytes, encode(header));
  if (!in_lane) append(bytes, payload);
  return bytes;
}

TEST_CASE("a new link has room and an empty queue, and returns the given number, name and medium") {
  for (const Medium medium : {Medium::tcp, Medium::one_host}) {
    const Ends ends(medium);
    CHECK(ends.link->id() == 42);
    CHECK(ends.link->remote() == "the other");
    CHECK(ends.link->medium() == medium);
    CHECK(ends.link->fd() >= 0);
    CHECK(ends.link->has_room());
    CHECK_FALSE(ends.link->room_again());
    CHECK(ends.link->drained());
    CHECK_FALSE(ends.link->waited_for());
    CHECK(ends.link->queued_bytes() == 0);
    CHECK(ends.link->send_error() == 0);
    CHECK_FALSE(ends.link->paused());
    CHECK(ends.reported() == 0);
  }
}

TEST_CASE("a link numbers its frames, and gives payloads a checksum on TCP, but none within a host") {
  const Bytes payload(100, std::byte{9});
  const std::uint32_t checksum = crc32c(payload.data(), payload.size());
  for (const Medium medium : {Medium::tcp, Medium::one_host}) {
    const Ends ends(medium);
    Header given = some_header();
    given.length = 7;
    given.sequence = 8;
    given.payload_crc = 9;
    CHECK(ends.link->send(given, payload, no_limit) == Link::Sent::yes);
    CHECK(ends.link->send(given, {}, no_limit) == Link::Sent::yes);
    CHECK(ends.link->send(given, payload, 0, 1234) == Link::Sent::yes);
    Bytes expected = frame_of(0, payload, medium == Medium::tcp ? checksum : 0);
    append(expected, frame_of(1, {}, 0));
    append(expected, frame_of(2, payload, medium == Medium::tcp ? 1234 : 0));
    CHECK(ends.come() == expected);
    CHECK(ends.link->queued_bytes() == 0);
  }
}

TEST_CASE("a paused link reports neither incoming bytes nor the end, until it is resumed") {
  Ends ends(Medium::tcp);
  ends.link->pause();
  CHECK(ends.link->paused());
  const Bytes frame = frame_of(0, {}, 0);
  REQUIRE(::send(ends.other, frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size()));
  CHECK(ends.reported() == 0);
  int delivered = 0;
  FrameReader::Receiver receiver;
  receiver.place = [](const Header&) { return std::nullopt; };
  receiver.deliver = [&](Frame&&) { return ++delivered > 0; };
  PostedReceives posted_receives;
  CHECK(ends.link->read(receiver, posted_receives) == FrameReader::End::more_later);
  CHECK(delivered == 0);
  ends.link->resume();
  CHECK_FALSE(ends.link->paused());
  CHECK(ends.reported() == EPOLLIN);
  CHECK(ends.link->read(receiver, posted_receives) == FrameReader::End::more_later);
  CHECK(delivered == 1);
  CHECK(ends.reported() == 0);
  ends.link->pause();
  ends.hang_up();
  CHECK(ends.reported() == 0);
  ends.link->resume();
  CHECK((ends.reported() & EPOLLRDHUP) != 0);
  CHECK(ends.link->read(receiver, posted_receives) == FrameReader::End::end_of_stream);
}

TEST_CASE("a paused link still reports that it can write its queue") {
  const Ends ends(Medium::tcp);
  ends.link->want_write();
  ends.link->pause();
  CHECK(ends.link->send(some_header(), {}, no_limit) == Link::Sent::yes);
  REQUIRE(::send(ends.other, "x", 1, 0) == 1);
  CHECK(ends.reported() == EPOLLOUT);
  ends.link->flush();
  CHECK(ends.reported() == 0);
  CHECK(ends.come() == frame_of(0, {}, 0));
}

TEST_CASE("a link queues frames before it is connected, and the first flush sends them in order") {
  const Ends ends(Medium::tcp);
  ends.link->want_write();
  CHECK(ends.reported() == EPOLLOUT);
  CHECK_FALSE(ends.link->has_room());
  CHECK(ends.link->waited_for());
  CHECK_FALSE(ends.link->room_again());
  CHECK(ends.link->drained());
  const Bytes payload(10, std::byte{1});
  const std::uint32_t checksum = crc32c(payload.data(), payload.size());
  CHECK(ends.link->send(some_header(), payload, 0) == Link::Sent::yes);  // the first frame is always accepted
  CHECK(ends.link->queued_bytes() == 74);
  CHECK(ends.link->send(some_header(), payload, 83) == Link::Sent::full);
  CHECK(ends.link->queued_bytes() == 74);
  CHECK(ends.link->send(some_header(), payload, 84) == Link::Sent::yes);
  CHECK(ends.link->queued_bytes() == 148);
  CHECK_FALSE(ends.link->drained());
  CHECK(ends.come().empty());
  ends.link->flush();
  Bytes expected = frame_of(0, payload, checksum);
  append(expected, frame_of(1, payload, checksum));  // the frame that was not accepted has no number
  CHECK(ends.come() == expected);
  CHECK(ends.link->queued_bytes() == 0);
  CHECK(ends.link->drained());
  CHECK(ends.reported() == 0);
  CHECK(ends.link->room_again());
  CHECK_FALSE(ends.link->room_again());
  CHECK_FALSE(ends.link->waited_for());
}

TEST_CASE("a link queues exactly the bytes that the socket does not take, and sends them later") {
  const Ends ends(Medium::tcp);
  Bytes expected, come;
  std::uint32_t sent = 0;
  for (; sent < 1000 && ends.link->drained(); ++sent) {
    const Bytes payload(30'001 + sent, static_cast<std::byte>(sent));
    CHECK(ends.link->send(some_header(), payload, no_limit) == Link::Sent::yes);
    append(expected, frame_of(sent, payload, crc32c(payload.data(), payload.size())));
  }
  REQUIRE_FALSE(ends.link->drained());
  CHECK_FALSE(ends.link->has_room());
  CHECK(ends.link->waited_for());
  for (std::uint32_t more = 0; more < 3; ++more, ++sent) {
    CHECK(ends.link->send(some_header(), {}, no_limit) == Link::Sent::yes);
    append(expected, frame_of(sent, {}, 0));
  }
  CHECK(ends.reported() == 0);
  append(come, ends.come());
  CHECK(ends.link->queued_bytes() == expected.size() - come.size());
  CHECK((ends.reported() & EPOLLOUT) != 0);
  while (!ends.link->drained()) {
    CHECK_FALSE(ends.link->room_again());
    ends.link->flush();
    append(come, ends.come());
    REQUIRE(ends.link->queued_bytes() == expected.size() - come.size());
  }
  CHECK(come == expected);
  CHECK(ends.link->room_again());
  CHECK(ends.reported() == 0);
}

TEST_CASE("a link has the error and an empty queue if a send fails") {
  Ends ends(Medium::tcp);
  ends.hang_up();
  CHECK(ends.link->send(some_header(), Bytes(10), no_limit) == Link::Sent::yes);
  CHECK(ends.link->send_error() == EPIPE);
  Ends later(Medium::tcp);
  later.link->want_write();
  for (int i = 0; i < 2; ++i) CHECK(later.link->send(some_header(), Bytes(10), no_limit) == Link::Sent::yes);
  CHECK(later.link->send_error() == 0);
  later.hang_up();
  later.link->flush();
  CHECK(later.link->send_error() == EPIPE);
  CHECK(later.link->queued_bytes() == 0);
  CHECK(later.link->drained());
  CHECK((later.reported() & EPOLLOUT) == 0);
}

TEST_CASE("a full socket is not an error") {
  const Ends ends(Medium::tcp);
  for (int i = 0; i < 1000 && ends.link->drained(); ++i)
    ends.link->send(some_header(), Bytes(30'000), no_limit);
  ends.link->flush();
  CHECK_FALSE(ends.link->drained());
  CHECK(ends.link->send_error() == 0);
}

TEST_CASE("a closed link accepts nothing, waits for nothing, and does not touch a reused descriptor") {
  const Ends ends(Medium::tcp);
  ends.link->want_write();
  CHECK(ends.link->send(some_header(), Bytes(10), no_limit) == Link::Sent::yes);
  CHECK_FALSE(ends.link->has_room());
  const int number = ends.link->fd();
  ends.link->close();
  pollfd entry{ends.other, POLLIN | POLLRDHUP, 0};
  CHECK(::poll(&entry, 1, 0) == 1);
  CHECK((entry.revents & POLLRDHUP) != 0);
  CHECK(ends.link->send(some_header(), {}, no_limit) == Link::Sent::closed);
  CHECK_FALSE(ends.link->room_again());
  CHECK(ends.link->has_room());
  CHECK(ends.link->drained());
  CHECK_FALSE(ends.link->waited_for());
  CHECK(ends.link->queued_bytes() == 0);
  // The number of the closed socket may belong to another file by now.
  const int reused = ::dup2(ends.epoll, number);
  CHECK(reused == number);
  ends.link->flush();
  ends.link->shut_down_sending();
  ends.link->close();
  CHECK(::fcntl(number, F_GETFD) >= 0);
  ::close(number);
}

TEST_CASE("after shut_down_sending() the other end reads an end of the stream, and can still send") {
  const Ends ends(Medium::tcp);
  ends.link->shut_down_sending();
  char byte;
  CHECK(::recv(ends.other, &byte, 1, MSG_DONTWAIT) == 0);
  CHECK(::send(ends.other, "x", 1, MSG_NOSIGNAL) == 1);
  CHECK((ends.reported() & EPOLLIN) != 0);
}

TEST_CASE(
    "within a host, payloads of at least 16 KiB go through the lane, and a separate frame opens the lane "
    "once") {
  const Ends ends(Medium::one_host);
  const Bytes small(16383, std::byte{1}), large(16384, std::byte{2});
  CHECK(ends.link->send(some_header(), small, no_limit) == Link::Sent::yes);
  CHECK(ends.come() == frame_of(0, small, payload_follows));
  // The lane is not opened while bytes are queued.
  ends.link->want_write();
  CHECK(ends.link->send(some_header(), large, no_limit) == Link::Sent::yes);
  CHECK(ends.link->send(some_header(), large, no_limit) == Link::Sent::yes);
  ends.link->flush();
  Bytes expected = frame_of(1, large, payload_follows);
  append(expected, frame_of(2, large, payload_follows));
  CHECK(ends.come() == expected);
  CHECK(ends.link->send(some_header(), large, no_limit) == Link::Sent::yes);
  CHECK(ends.link->send(some_header(), small, no_limit) == Link::Sent::yes);
  CHECK(ends.link->send(some_header(), large, no_limit) == Link::Sent::yes);
  Header lane;
  lane.type = MessageType::lane;
  lane.sender = some_header().sender;
  lane.incarnation = some_header().incarnation;
  lane.sequence = 3;
  expected.clear();
  append(expected, encode(lane));
  append(expected, frame_of(4, large, payload_in_lane, true));
  append(expected, frame_of(5, small, payload_follows));
  append(expected, frame_of(6, large, payload_in_lane, true));
  CHECK(ends.come() == expected);
}

TEST_CASE(
    "a payload without room in the lane goes through the socket, or is refused if the sender can wait for "
    "room") {
  const Ends ends(Medium::one_host);
  const Bytes half(SharedLane::always_fits), more(SharedLane::always_fits + 1), least(16384);
  CHECK(ends.link->send(some_header(), half, 0) == Link::Sent::yes);
  CHECK(ends.link->has_room());
  CHECK(ends.link->send(some_header(), half, 0) == Link::Sent::yes);
  CHECK(ends.come().size() == 3 * header_size);
  CHECK(ends.link->send(some_header(), least, 0) == Link::Sent::full);
  CHECK(ends.link->send(some_header(), half, 0) == Link::Sent::full);
  CHECK_FALSE(ends.link->has_room());
  CHECK(ends.link->waited_for());
  CHECK_FALSE(ends.link->room_again());
  CHECK(ends.link->send(some_header(), least, 1) == Link::Sent::yes);
  CHECK(ends.come() == frame_of(3, least, payload_follows));
  CHECK(ends.link->send(some_header(), more, 0) == Link::Sent::yes);
  CHECK(ends.link->queued_bytes() + ends.come().size() == header_size + more.size());
}

}  // namespace links
}  // namespace
}  // namespace mlk::rt
