// Frames that a link writes, read from the other end of a pair of sockets.
#include "runtime/transport/frame_reader.h"

#include <algorithm>
#include <atomic>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/base/crc32c.h"
#include "runtime/transport/link.h"

TEST_SUITE_BEGIN("runtime/transport/frame_reader");

using namespace mlk::rt;

namespace {

// A link within one host, and a reader at its other end.
struct Pair {
  int epoll = epoll_create1(EPOLL_CLOEXEC), ends[2] = {-1, -1};
  std::unique_ptr<Link> writer;
  FrameReader reader{Medium::one_host};
  FrameReader::Receiver receiver;
  PostedReceives posted_receives;
  std::atomic<bool> paused{false};
  std::vector<Frame> frames;
  int announced_room = 0;

  Pair() {
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    writer = std::make_unique<Link>(ends[0], epoll, 1, "pair", Medium::one_host);
    receiver.length_limit = 1 << 20;
    receiver.place = [](const Header&) { return std::nullopt; };
    receiver.deliver = [this](Frame&& frame) {
      frames.push_back(std::move(frame));
      return true;
    };
    receiver.announce_room = [this] { ++announced_room; };
  }
  ~Pair() {
    ::close(ends[1]);
    ::close(epoll);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void send(MessageType type, std::size_t size) {
    Header header;
    header.type = type;
    CHECK(writer->send(header, std::vector<std::byte>(size, std::byte{7}), 1 << 20) == Link::Sent::yes);
  }
  FrameReader::End read() { return reader.read(ends[1], receiver, posted_receives, paused); }
};

}  // namespace

TEST_CASE("a lane that arrives together with the proof of its peer is opened") {
  Pair pair;
  pair.receiver.deliver = [&pair](Frame&& frame) {
    pair.receiver.trusted = true;
    pair.frames.push_back(std::move(frame));
    return true;
  };
  pair.send(MessageType::proof, 32);
  pair.send(MessageType::push, 100'000);
  while (pair.frames.size() < 2) REQUIRE(pair.read() == FrameReader::End::more_later);
  CHECK(pair.frames[1].header.payload_crc == payload_in_lane);
  CHECK(pair.frames[1].payload == Bytes(100'000, std::byte{7}));
}

TEST_CASE("a stranger cannot open a lane") {
  Pair pair;
  pair.send(MessageType::push, 100'000);
  for (int calls = 0; calls < 10 && pair.read() == FrameReader::End::more_later;) ++calls;
  REQUIRE(pair.frames.size() == 1);
  CHECK(pair.frames[0].header.type == MessageType::lane);  // passed on to the code that refuses strangers
  CHECK(pair.reader.fault() == WireFault::lane);           // the payload in the lane cannot be read
}

TEST_CASE("a reader adds floats to the buffer correctly if they arrive in parts of any size") {
  for (const std::size_t cut : {1u, 3u, 4097u, 131'073u, 1'000'000u}) {
    CAPTURE(cut);
    Pair pair;
    FrameReader reader(Medium::tcp);
    std::vector<float> values(cut < 10 ? 1000 : 200'000), sum(values.size(), 0.5f);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 999);
    pair.receiver.place = [&](const Header&) {
      pair.posted_receives.post({}, std::as_writable_bytes(std::span(sum)), ReceiveMode::add);
      return pair.posted_receives.claim({}, values.size() * sizeof(float));
    };
    Header header;
    header.type = MessageType::reduce;
    header.length = static_cast<std::uint32_t>(values.size() * sizeof(float));
    header.payload_crc = crc32c(values.data(), header.length);
    const auto head = encode(header);
    Bytes stream;
    append(stream, head);
    append(stream, std::as_bytes(std::span(values)));
    for (std::size_t at = 0; at < stream.size();) {
      const ssize_t sent =
          ::send(pair.ends[0], stream.data() + at, std::min(cut, stream.size() - at), MSG_DONTWAIT);
      if (sent > 0) at += static_cast<std::size_t>(sent);
      REQUIRE(reader.read(pair.ends[1], pair.receiver, pair.posted_receives, pair.paused) ==
              FrameReader::End::more_later);
    }
    while (pair.frames.empty())
      REQUIRE(reader.read(pair.ends[1], pair.receiver, pair.posted_receives, pair.paused) ==
              FrameReader::End::more_later);
    CHECK(pair.frames[0].in_posted_buffer);
    for (float& value : values) value += 0.5f;
    CHECK(sum == values);
    CHECK(pair.frames[0].posted_crc == crc32c(sum.data(), header.length));
  }
}

TEST_CASE(
    "if reading is paused after each frame, each further read() delivers the next frame that has arrived") {
  Pair pair;
  pair.receiver.deliver = [&pair](Frame&& frame) {
    pair.frames.push_back(std::move(frame));
    pair.paused = true;
    return true;
  };
  for (int i = 0; i < 5; ++i) pair.send(MessageType::push, 100);
  for (std::size_t read = 1; read <= 5; ++read) {
    pair.paused = false;
    CHECK(pair.read() == FrameReader::End::more_later);
    CHECK(pair.frames.size() == read);
  }
}

TEST_CASE(
    "when the payloads of a full lane are read, the reader announces room once, and the writer has room "
    "again") {
  Pair pair;
  pair.receiver.trusted = true;
  Header header;
  header.type = MessageType::push;
  const Bytes payload(SharedLane::capacity / 8, std::byte{7});
  std::size_t sent = 0;
  while (pair.writer->send(header, payload, 0) == Link::Sent::yes) ++sent;
  CHECK(sent == 8);
  CHECK_FALSE(pair.writer->has_room());
  CHECK_FALSE(pair.writer->room_again());
  while (pair.frames.size() < sent) REQUIRE(pair.read() == FrameReader::End::more_later);
  CHECK(pair.announced_room == 1);
  CHECK(pair.writer->room_again());
  CHECK_FALSE(pair.writer->room_again());
}
