// The bytes of a connection: good frames, sent in pieces of any size, sometimes with spoilt bytes. A frame
// that arrives is as it was sent. If no byte is spoilt, all frames before the first frame that is too long
// arrive.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/crc32c.h"
#include "runtime/transport/frame_reader.h"
#include "tests/fuzz/demand.h"

using namespace mlk::rt;
using mlk::fuzz::demand;

namespace {

constexpr std::uint32_t length_limit = 100'000;
constexpr MessageType types[] = {MessageType::hello,   MessageType::heartbeat, MessageType::push,
                                 MessageType::weights, MessageType::reduce,    MessageType::done};

struct Sent {
  Header header;
  Bytes payload;
};

Sent any_frame(FuzzedDataProvider& input, std::uint32_t sequence) {
  Sent sent;
  sent.header.type = input.PickValueInArray(types);
  sent.header.sender = {Role::worker, input.ConsumeIntegralInRange<std::uint32_t>(0, (1u << 24) - 1)};
  sent.header.key = input.ConsumeIntegralInRange<std::uint32_t>(0, 3);
  sent.header.clock = input.ConsumeIntegralInRange<std::uint64_t>(0, 3);
  // The link handles a payload of more than 32 KiB in another way than a shorter one.
  const auto length = input.ConsumeIntegralInRange<std::uint32_t>(0, length_limit + 10);
  sent.payload.assign(length, std::byte{input.ConsumeIntegral<std::uint8_t>()});
  sent.header.length = length;
  sent.header.sequence = sequence;
  sent.header.payload_crc = crc32c(sent.payload.data(), length);
  return sent;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  std::vector<Sent> frames;
  Bytes stream;
  std::size_t whole = 0;  // frames that may arrive
  bool too_long = false;
  const int count = input.ConsumeIntegralInRange(1, 6);
  for (int i = 0; i < count; ++i) {
    frames.push_back(any_frame(input, static_cast<std::uint32_t>(i)));
    const auto head = encode(frames.back().header);
    stream.insert(stream.end(), head.begin(), head.end());
    stream.insert(stream.end(), frames.back().payload.begin(), frames.back().payload.end());
    too_long = too_long || frames.back().payload.size() > length_limit;
    if (!too_long) ++whole;
  }
  const bool spoilt = input.ConsumeBool();
  if (spoilt) {
    const auto at = input.ConsumeIntegralInRange<std::size_t>(0, stream.size() - 1);
    switch (input.ConsumeIntegralInRange(0, 2)) {
      case 0:
        stream[at] ^= std::byte{input.ConsumeIntegral<std::uint8_t>()};
        break;
      case 1:
        stream.resize(at);
        break;
      default: {  // bytes that come twice
        const Bytes again(stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(at));
        stream.insert(stream.begin() + static_cast<std::ptrdiff_t>(at), again.begin(), again.end());
      }
    }
  }

  int ends[2];
  demand(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  {
    FrameReader reader(Medium::tcp);
    const std::atomic<bool> paused{false};
    PostedReceives posted_receives;
    Bytes buffer(frames[input.ConsumeIntegralInRange<std::size_t>(0, frames.size() - 1)].payload.size());
    posted_receives.post({{Role::worker, 1}, MessageType::push, 0, 0, 0}, buffer);
    std::size_t arrived = 0;
    FrameReader::Receiver receiver;
    receiver.length_limit = length_limit;
    receiver.place = [&](const Header& header) {
      return posted_receives.claim({{Role::worker, 1}, header.type, 0, header.clock, header.key},
                                   header.length);
    };
    receiver.deliver = [&](Frame&& frame) {
      demand(arrived < frames.size());
      const Sent& sent = frames[arrived++];
      demand(frame.header == sent.header);
      demand(frame.in_posted_buffer ? std::ranges::equal(buffer, sent.payload)
                                    : frame.payload == sent.payload);
      return true;
    };
    std::size_t written = 0;
    auto end = FrameReader::End::more_later;
    while (end == FrameReader::End::more_later) {
      if (written < stream.size()) {
        const auto piece =
            std::min(stream.size() - written, input.ConsumeIntegralInRange<std::size_t>(1, 70'000));
        const ssize_t went = ::write(ends[1], stream.data() + written, piece);
        if (went > 0) written += static_cast<std::size_t>(went);
      } else {
        ::shutdown(ends[1], SHUT_WR);
      }
      end = reader.read(ends[0], receiver, posted_receives, paused);
    }
    if (!spoilt) demand(arrived == whole && (end == FrameReader::End::fault) == too_long);
  }
  for (const int end : ends) ::close(end);
  return 0;
}
