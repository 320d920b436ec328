// Frames that a link writes, read from the other end of a pair of sockets.
#include "runtime/frame_reader.h"

#include <atomic>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/link.h"

using namespace mlk::rt;

namespace {

// A link of one host, and a reader at its other end.
struct Pair {
  int epoll = epoll_create1(EPOLL_CLOEXEC), ends[2] = {-1, -1};
  std::unique_ptr<Link> writer;
  FrameReader reader{Medium::one_host};
  FrameReader::Receiver receiver;
  Landings landings;
  std::atomic<bool> paused{false};
  std::vector<Frame> frames;

  Pair() {
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    writer = std::make_unique<Link>(ends[0], epoll, 1, "pair", Medium::one_host);
    receiver.length_limit = 1 << 20;
    receiver.place = [](const Header&) { return std::nullopt; };
    receiver.deliver = [this](Frame&& frame) {
      frames.push_back(std::move(frame));
      return true;
    };
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
  FrameReader::End read() { return reader.read(ends[1], receiver, landings, paused); }
};

}  // namespace

TEST_CASE("nothing is delivered while reading is paused, and nothing is lost by it") {
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
