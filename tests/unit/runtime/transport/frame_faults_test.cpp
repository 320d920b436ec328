// What a reader of frames does with faults, with buffers that are taken back, and with descriptors.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/base/crc32c.h"
#include "runtime/transport/frame_reader.h"
#include "runtime/transport/link.h"

TEST_SUITE_BEGIN("runtime/transport/frame_faults");

namespace mlk::rt {
namespace {
namespace frame_faults {

Header some_header(MessageType type = MessageType::push) {
  Header header;
  header.type = type;
  header.sender = {Role::server, 3};
  header.incarnation = 77;
  header.key = 5;
  return header;
}

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
    Header header = some_header(type);
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
    Header header = some_header();
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

TEST_CASE("FrameReader::read() has different results for an end of stream, a reset and an unproven loss") {
  Reading closed(Medium::tcp);
  ::close(std::exchange(closed.ends[0], -1));
  CHECK(closed.read() == FrameReader::End::end_of_stream);
  Reading reset(Medium::tcp);
  REQUIRE(::send(reset.ends[1], "x", 1, 0) == 1);  // the other end closes before it has read the byte
  ::close(std::exchange(reset.ends[0], -1));
  CHECK(reset.read() == FrameReader::End::reset);
  Reading none(Medium::tcp);
  CHECK(none.reader.read(-1, none.receiver, none.posted_receives, none.paused) ==
        FrameReader::End::unproven_loss);
  CHECK(none.read() == FrameReader::End::more_later);
}

TEST_CASE("a reader delivers no more frames after deliver() has returned false") {
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

TEST_CASE("a reader writes nothing more to a buffer after cancel_all(), even in the middle of a frame") {
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

TEST_CASE(
    "a reader keeps at most one of the descriptors that arrive, and its destructor closes this descriptor") {
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

TEST_CASE("a payload from the lane replaces the content of its posted buffer, or is added to this content") {
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
      Header header = some_header();
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

}  // namespace frame_faults
}  // namespace
}  // namespace mlk::rt
