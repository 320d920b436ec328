// One link over a pair of sockets: what it writes, queues and reports, to epoll and to its caller.
#include "runtime/transport/link.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
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

TEST_CASE("a new link has room, an empty queue, and its number, name and medium") {
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

TEST_CASE("frames have sequence numbers, a checksum over TCP, and no checksum within a host") {
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

TEST_CASE("before the connection is made all frames are queued, and the first flush sends them in order") {
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

TEST_CASE("exactly the bytes that the socket does not take are queued, and are sent when there is room") {
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

TEST_CASE("if a send fails, the link has the error, and its queue is empty") {
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

TEST_CASE("after the end of sending the other end reads an end of stream, and can still send") {
  const Ends ends(Medium::tcp);
  ends.link->shut_down_sending();
  char byte;
  CHECK(::recv(ends.other, &byte, 1, MSG_DONTWAIT) == 0);
  CHECK(::send(ends.other, "x", 1, MSG_NOSIGNAL) == 1);
  CHECK((ends.reported() & EPOLLIN) != 0);
}

TEST_CASE("within a host a payload of 16 KiB goes through the lane, which a separate frame opens once") {
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
    "a payload that does not fit into the lane goes through the socket, or waits if the sender can wait") {
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

namespace readers {

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

// A reader at one of two sockets, and the frames that it delivers.
struct Reading {
  int ends[2] = {-1, -1};
  FrameReader reader;
  FrameReader::Receiver receiver;
  PostedReceives posted_receives;
  std::atomic<bool> paused{false};
  std::vector<Frame> frames;
  std::uint32_t sequence = 0;

  explicit Reading(Medium medium) : reader(medium) {
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    receiver.length_limit = 1000;
    receiver.trusted = true;
    receiver.place = [this](const Header& header) {
      return posted_receives.claim({header.sender, header.type, header.generation, header.clock, header.key},
                                   header.length);
    };
    receiver.deliver = [this](Frame&& frame) {
      frames.push_back(std::move(frame));
      return true;
    };
  }
  ~Reading() {
    for (const int fd : ends) ::close(fd);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  Bytes frame(std::span<const std::byte> payload, MessageType type = MessageType::push) {
    Header header = links::some_header(type);
    header.sequence = sequence++;
    header.length = static_cast<std::uint32_t>(payload.size());
    header.payload_crc = crc32c(payload.data(), payload.size());
    Bytes bytes;
    append(bytes, encode(header));
    append(bytes, payload);
    return bytes;
  }
  void write(std::span<const std::byte> bytes) const {
    REQUIRE(::send(ends[0], bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  void write_with(std::span<const std::byte> bytes, std::span<const int> descriptors) const {
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) std::array<char, 256> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
    REQUIRE(::sendmsg(ends[0], &message, 0) == static_cast<ssize_t>(bytes.size()));
  }
  FrameReader::End read() { return reader.read(ends[1], receiver, posted_receives, paused); }
};

TEST_CASE("a frame with a wrong sequence number, length or checksum is a fault, and is not delivered") {
  struct Wrong {
    WireFault fault;
    void (*change)(Header& header);
  };
  const Wrong wrongs[] = {
      {WireFault::none, [](Header&) {}},
      {WireFault::checksum, [](Header& header) { header.sequence = 2; }},
      {WireFault::checksum, [](Header& header) { header.sequence = 0; }},
      {WireFault::checksum, [](Header& header) { ++header.payload_crc; }},
      {WireFault::length, [](Header& header) { header.length = 1001; }},
  };
  for (const Wrong& wrong : wrongs) {
    Reading run(Medium::tcp);
    run.write(run.frame({}));
    const Bytes payload(1000, std::byte{4});
    Header header = links::some_header();
    header.sequence = 1;
    header.length = 1000;
    header.payload_crc = crc32c(payload.data(), payload.size());
    wrong.change(header);
    run.write(encode(header));
    run.write(payload);
    CHECK(run.read() ==
          (wrong.fault == WireFault::none ? FrameReader::End::more_later : FrameReader::End::fault));
    CHECK(run.reader.fault() == wrong.fault);
    CHECK(run.frames.size() == (wrong.fault == WireFault::none ? 2 : 1));
  }
}

TEST_CASE("the reader reports an end of stream, a reset and an unproven loss as different ends of a socket") {
  Reading closed(Medium::tcp);
  ::close(std::exchange(closed.ends[0], -1));
  CHECK(closed.read() == FrameReader::End::end_of_stream);
  Reading reset(Medium::tcp);
  REQUIRE(::send(reset.ends[1], "x", 1, 0) == 1);  // the other end has not read it when it closes
  ::close(std::exchange(reset.ends[0], -1));
  CHECK(reset.read() == FrameReader::End::reset);
  Reading none(Medium::tcp);
  CHECK(none.reader.read(-1, none.receiver, none.posted_receives, none.paused) ==
        FrameReader::End::unproven_loss);
  CHECK(none.read() == FrameReader::End::more_later);
}

TEST_CASE(
    "after deliver() returns false the reader delivers no more frames, and reports no fault of the wire") {
  Reading run(Medium::tcp);
  int asked = 0;
  run.receiver.deliver = [&](Frame&&) { return ++asked < 2; };
  for (int i = 0; i < 3; ++i) run.write(run.frame({}));
  CHECK(run.read() == FrameReader::End::fault);
  CHECK(asked == 2);
  CHECK(run.reader.fault() == WireFault::none);
}

TEST_CASE("the reader asks for a posted buffer only for a frame with a payload") {
  Reading run(Medium::tcp);
  int asked = 0;
  run.receiver.place = [&](const Header&) -> std::optional<PostedReceives::Ticket> {
    ++asked;
    return {};
  };
  run.write(run.frame({}));
  run.write(run.frame(Bytes(1)));
  CHECK(run.read() == FrameReader::End::more_later);
  CHECK(asked == 1);
  REQUIRE(run.frames.size() == 2);
  CHECK_FALSE(run.frames[1].in_posted_buffer);
  CHECK_FALSE(run.frames[1].posted_crc);
}

TEST_CASE("when the buffer of a half received frame is taken back, the reader writes nothing more to it") {
  for (const ReceiveMode how : {ReceiveMode::replace, ReceiveMode::add}) {
    Reading run(Medium::tcp);
    const std::vector<float> values(100, 2.0f);
    std::vector<float> buffer(100, 1.0f);
    run.posted_receives.post({{Role::server, 3}, MessageType::push, 0, 0, 5},
                             std::as_writable_bytes(std::span(buffer)), how);
    const std::uint64_t epoch = run.posted_receives.epoch();
    const Bytes frame = run.frame(std::as_bytes(std::span(values)));
    const auto first = std::span(frame).first(header_size + 200);
    run.write(first);
    CHECK(run.read() == FrameReader::End::more_later);
    run.posted_receives.cancel_all();
    for (const std::size_t at : {first.size(), first.size() + 100}) {
      run.write(std::span(frame).subspan(at, 100));
      CHECK(run.read() == FrameReader::End::more_later);
    }
    REQUIRE(run.frames.size() == 1);
    CHECK(run.frames[0].in_posted_buffer);
    CHECK(run.frames[0].posted_epoch == epoch);
    CHECK(run.frames[0].payload.empty());
    const float half = how == ReceiveMode::add ? 3.0f : 2.0f;
    for (std::size_t i = 0; i < buffer.size(); ++i) REQUIRE(buffer[i] == (i < 50 ? half : 1.0f));
  }
}

TEST_CASE("of several descriptors that arrive the last one is kept, and all are closed at the end") {
  const std::size_t before = open_descriptors();
  {
    Reading run(Medium::one_host);
    const int two[] = {run.ends[0], run.ends[1]};
    const Bytes frame = run.frame({});
    run.write_with(frame, two);
    CHECK(run.read() == FrameReader::End::more_later);
    CHECK(open_descriptors() <= before + 3);
    run.write_with(run.frame({}), std::span(two).first(1));
    CHECK(run.read() == FrameReader::End::more_later);
    CHECK(open_descriptors() <= before + 3);
  }
  CHECK(open_descriptors() <= before);
}

TEST_CASE("a descriptor that is not a lane is refused and closed") {
  const std::size_t before = open_descriptors();
  {
    Reading run(Medium::one_host);
    const int one[] = {run.ends[0]};
    run.write_with(run.frame({}, MessageType::lane), one);
    CHECK(run.read() == FrameReader::End::fault);
    CHECK(run.reader.fault() == WireFault::lane);
    CHECK(open_descriptors() <= before + 2);
    CHECK(run.frames.empty());
  }
  CHECK(open_descriptors() <= before);
}

TEST_CASE("a payload from the lane goes into its posted buffer, or is added to it") {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  Reading run(Medium::one_host);
  run.receiver.length_limit = 1 << 20;
  run.receiver.announce_room = [] {};
  {
    Link writer(run.ends[0], epoll, 1, "writer", Medium::one_host);
    const std::vector<float> values(10'000, 2.0f);
    std::vector<float> replaced(10'000, 1.0f), added(10'000, 1.0f);
    const auto expect = [&](std::uint32_t key, std::vector<float>& buffer, ReceiveMode how) {
      run.posted_receives.post({{Role::server, 3}, MessageType::push, 0, 0, key},
                               std::as_writable_bytes(std::span(buffer)), how);
    };
    expect(1, replaced, ReceiveMode::replace);
    expect(2, added, ReceiveMode::add);
    for (const std::uint32_t key : {1u, 2u, 3u}) {
      Header header = links::some_header();
      header.key = key;
      CHECK(writer.send(header, std::as_bytes(std::span(values)), 0) == Link::Sent::yes);
    }
    // Each read() ends at the byte with the lane's descriptor.
    for (int calls = 0; calls < 10 && run.frames.size() < 3; ++calls)
      CHECK(run.read() == FrameReader::End::more_later);
    REQUIRE(run.frames.size() == 3);
    CHECK(run.frames[0].in_posted_buffer);
    CHECK(run.frames[1].in_posted_buffer);
    CHECK_FALSE(run.frames[1].posted_crc);
    CHECK_FALSE(run.frames[2].in_posted_buffer);
    CHECK(replaced == values);
    CHECK(added == std::vector<float>(10'000, 3.0f));
    CHECK(std::ranges::equal(run.frames[2].payload, std::as_bytes(std::span(values))));
  }
  run.ends[0] = -1;
  ::close(epoll);
}

}  // namespace readers
}  // namespace
}  // namespace mlk::rt
