// Parses frames. The bytes of a payload come from one of three places: the bytes that were read ahead with
// the header, the socket, or the shared lane.
#include "runtime/transport/frame_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

#include "kernels/cpu/cpu_ops.h"
#include "runtime/base/crc32c.h"

namespace mlk::rt {
namespace {

// A buffer of this size holds a small message as a whole. With a larger buffer, much of a large message would
// be copied twice.
constexpr std::size_t read_ahead_size = 8 * 1024;
constexpr std::size_t straight_from = 2 * 1024;
constexpr std::size_t read_turn = 2 * 1024 * 1024;
// The most bytes that are read from the socket at once: few enough that they are still in the core's cache
// for the checksum and the addition.
constexpr std::size_t read_size = 128 * 1024;

// Returns the descriptor that came with a message, or the last one if there are several.
int descriptor_in(msghdr& message) {
  int found = -1;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
      if (found >= 0) ::close(found);
      std::memcpy(&found, CMSG_DATA(part) + at, sizeof found);
    }
  }
  return found;
}

}  // namespace

FrameReader::FrameReader(Medium medium)
    : medium_(medium), ops_(kernels::make_cpu_ops()), read_ahead_(read_ahead_size) {}

FrameReader::~FrameReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool FrameReader::fail(WireFault fault) {
  fault_ = fault;
  return false;
}

FrameReader::End FrameReader::read(int fd, const Receiver& receiver, PostedReceives& posted_receives,
                                   const std::atomic<bool>& paused) {
  if (!consume(receiver, posted_receives, paused)) return End::fault;
  for (std::size_t taken = 0; taken < read_turn && !paused;) {
    const std::size_t rest = in_payload_ ? frame_.header.length - payload_filled_ : 0;
    Received got;
    std::size_t straight = 0;
    if (rest < straight_from) {
      got = receive(fd, {}, true);
    } else {
      take_in(std::min(rest, read_size), posted_receives, [&](std::span<std::byte> buffer) {
        got = receive(fd, buffer, buffer.size() == rest);
        return straight = std::min(buffer.size(), static_cast<std::size_t>(std::max<ssize_t>(got.size, 0)));
      });
    }
    if (got.size == 0) return End::end_of_stream;
    if (got.size < 0) {
      if (got.error == EINTR) continue;
      if (got.error == EAGAIN || got.error == EWOULDBLOCK) return End::more_later;
      return got.error == ECONNRESET || got.error == ECONNREFUSED ? End::reset : End::unproven_loss;
    }
    const auto size = static_cast<std::size_t>(got.size);
    taken += size;
    if (straight > 0 && straight == rest && !finish_frame(receiver)) return End::fault;
    ahead_ = std::span(read_ahead_).first(size - straight);
    if (!consume(receiver, posted_receives, paused)) return End::fault;
    if (got.all) break;
  }
  return End::more_later;
}

// Reads bytes of a payload into `straight`. If `ahead` is set, also reads the bytes that follow, into
// read_ahead_. Accepts a descriptor from a stranger, too: the descriptor may come in the same call as the
// proof of the peer.
FrameReader::Received FrameReader::receive(int fd, std::span<std::byte> straight, bool ahead) {
  std::array<iovec, 2> parts;
  std::size_t count = 0, room = straight.size();
  if (!straight.empty()) parts[count++] = {straight.data(), straight.size()};
  if (ahead) {
    parts[count++] = {read_ahead_.data(), read_ahead_.size()};
    room += read_ahead_.size();
  }
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  if (medium_ == Medium::one_host) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  Received got;
  got.size = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  got.error = errno;
  got.all = got.size < static_cast<ssize_t>(room);
  if (got.size > 0 && message.msg_controllen > 0) {
    if (const int found = descriptor_in(message); found >= 0) {
      if (descriptor_ >= 0) ::close(descriptor_);
      descriptor_ = found;
    }
  }
  return got;
}

// fill(memory) puts the next bytes of the payload, at most `size`, into memory, and returns their number.
template <typename Fill>
void FrameReader::take_in(std::size_t size, PostedReceives& posted_receives, Fill fill) {
  const auto fill_and_check = [&](std::span<std::byte> memory) {
    const std::size_t filled = fill(memory);
    if (medium_ == Medium::tcp) crc_ = crc32c(memory.data(), filled, crc_);
    return filled;
  };
  if (ticket_ && ticket_->how == ReceiveMode::add) return add_in(size, posted_receives, fill_and_check);
  if (ticket_ && !taken_back_) {
    if (posted_receives.use(*ticket_, [&](std::span<std::byte> buffer) {
          payload_filled_ += fill_and_check(buffer.subspan(payload_filled_, size));
        })) {
      return;
    }
    taken_back_ = true;
    frame_.payload.resize(frame_.header.length);
  }
  payload_filled_ += fill_and_check(std::span(frame_.payload).subspan(payload_filled_, size));
}

// Adds floats before it knows the checksum of the whole payload. If the checksum is wrong, the connection
// ends, and every sum that used the connection ends, too. An incomplete float waits for its remaining bytes.
template <typename Fill>
void FrameReader::add_in(std::size_t size, PostedReceives& posted_receives, Fill fill) {
  scratch_.resize(sizeof(float) + read_size);
  const std::size_t filled = fill(std::span(scratch_).subspan(odd_bytes_, size));
  const std::size_t held = odd_bytes_ + filled, whole = held / sizeof(float) * sizeof(float);
  posted_receives.use(*ticket_, [&](std::span<std::byte> sum) {
    const auto part = sum.subspan(payload_filled_ - odd_bytes_, whole);
    put_into(part, std::span(scratch_).first(whole), ReceiveMode::add, *ops_);
    if (medium_ == Medium::tcp) sum_crc_ = crc32c(part.data(), part.size(), sum_crc_);
  });
  odd_bytes_ = held - whole;
  std::memmove(scratch_.data(), scratch_.data() + whole, odd_bytes_);
  payload_filled_ += filled;
}

bool FrameReader::consume(const Receiver& receiver, PostedReceives& posted_receives,
                          const std::atomic<bool>& paused) {
  while (!ahead_.empty() && !paused) {
    if (!in_payload_) {
      const std::size_t take = std::min(ahead_.size(), header_size - header_filled_);
      std::memcpy(header_bytes_.data() + header_filled_, ahead_.data(), take);
      header_filled_ += take;
      ahead_ = ahead_.subspan(take);
      if (header_filled_ < header_size) return true;
      if (!begin_payload(receiver, posted_receives)) return false;
    }
    const std::size_t take = std::min<std::size_t>(ahead_.size(), frame_.header.length - payload_filled_);
    absorb(ahead_.first(take), posted_receives);
    ahead_ = ahead_.subspan(take);
    if (payload_filled_ == frame_.header.length && !finish_frame(receiver)) return false;
  }
  return true;
}

bool FrameReader::begin_payload(const Receiver& receiver, PostedReceives& posted_receives) {
  header_filled_ = 0;
  frame_ = Frame();
  if (const auto found = decode(header_bytes_, receiver.length_limit, frame_.header);
      found != WireFault::none)
    return fail(found);
  if (frame_.header.sequence != received_frames_++) return fail(WireFault::checksum);
  in_payload_ = true;
  payload_filled_ = 0;
  crc_ = sum_crc_ = 0;
  odd_bytes_ = 0;
  taken_back_ = false;
  ticket_ = frame_.header.length > 0 ? receiver.place(frame_.header) : std::nullopt;
  if (medium_ == Medium::one_host && frame_.header.payload_crc == payload_in_lane)
    return take_from_lane(receiver, posted_receives);
  if (!ticket_) frame_.payload.resize(frame_.header.length);
  return true;
}

bool FrameReader::take_from_lane(const Receiver& receiver, PostedReceives& posted_receives) {
  const std::size_t length = frame_.header.length;
  const auto payload = lane_ ? lane_->next(length) : std::span<const std::byte>();
  if (payload.empty()) return fail(WireFault::lane);
  if (ticket_) {
    posted_receives.use(*ticket_,
                        [&](std::span<std::byte> buffer) { put_into(buffer, payload, ticket_->how, *ops_); });
  } else {
    append(frame_.payload, payload);
  }
  if (lane_->release()) receiver.announce_room();
  payload_filled_ = length;
  return true;
}

void FrameReader::absorb(std::span<const std::byte> bytes, PostedReceives& posted_receives) {
  if (bytes.empty()) return;
  take_in(bytes.size(), posted_receives, [&](std::span<std::byte> memory) {
    std::memcpy(memory.data(), bytes.data(), bytes.size());
    return bytes.size();
  });
}

bool FrameReader::finish_frame(const Receiver& receiver) {
  in_payload_ = false;
  if (medium_ == Medium::tcp && crc_ != frame_.header.payload_crc) return fail(WireFault::checksum);
  if (ticket_) {
    frame_.payload = Bytes();
    frame_.in_posted_buffer = true;
    frame_.posted_epoch = ticket_->epoch;  // shows later whether the buffer was taken back in the meantime
    if (medium_ == Medium::tcp) frame_.posted_crc = ticket_->how == ReceiveMode::add ? sum_crc_ : crc_;
    ticket_.reset();
  }
  if (frame_.header.type == MessageType::lane && receiver.trusted && descriptor_ >= 0) return open_lane();
  return receiver.deliver(std::move(frame_));
}

bool FrameReader::open_lane() {
  lane_ = SharedLane::open(descriptor_);
  ::close(std::exchange(descriptor_, -1));
  return lane_ || fail(WireFault::lane);
}

}  // namespace mlk::rt
