// Frames over one non-blocking socket.
#include "runtime/link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/crc32c.h"

namespace mlk::rt {
namespace {

constexpr std::size_t read_ahead_size = 32 * 1024;
// What one call of read() takes at most, so that one busy peer does not starve the others.
constexpr std::size_t read_turn = 2 * 1024 * 1024;

}  // namespace

Link::Link(int fd, int epoll, std::uint64_t id, std::string remote)
    : epoll_(epoll), id_(id), remote_(std::move(remote)), fd_(fd), read_ahead_(read_ahead_size) {
  epoll_event event{};
  event.events = interest_ = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = id_;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd_, &event);
}

Link::~Link() { close(); }

void Link::update_interest() {
  if (closed_) return;
  std::uint32_t wanted = EPOLLRDHUP;
  if (!paused_) wanted |= EPOLLIN;
  if (want_write_ || !queue_.empty()) wanted |= EPOLLOUT;
  if (paused_) wanted &= ~static_cast<std::uint32_t>(EPOLLRDHUP);
  if (wanted == interest_) return;
  interest_ = wanted;
  epoll_event event{};
  event.events = wanted;
  event.data.u64 = id_;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, fd_, &event);
}

void Link::want_write() {
  const std::lock_guard lock(mutex_);
  want_write_ = true;
  update_interest();
}

bool Link::send(Header header, std::span<const std::byte> payload, std::size_t limit, WhenFull when_full) {
  header.length = static_cast<std::uint32_t>(payload.size());
  header.payload_crc = crc32c(payload.data(), payload.size());
  std::unique_lock lock(mutex_);
  const auto has_room = [&] {
    return closed_ || queued_bytes_ == 0 || queued_bytes_ + payload.size() <= limit;
  };
  if (when_full == WhenFull::wait) {
    room_.wait(lock, has_room);
  } else if (!has_room()) {
    return false;
  }
  if (closed_) return false;
  header.sequence = sent_frames_++;
  const auto head = encode(header);

  std::size_t sent = 0;
  if (queue_.empty() && !want_write_) {
    iovec parts[2] = {{const_cast<std::byte*>(head.data()), head.size()},
                      {const_cast<std::byte*>(payload.data()), payload.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = payload.empty() ? 1 : 2;
    const ssize_t written = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    // The rest of an error is handled where the network thread reads.
    if (written > 0) sent = static_cast<std::size_t>(written);
    if (written < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) send_error_ = errno;
  }
  if (sent == head.size() + payload.size()) return true;
  Bytes rest;
  rest.reserve(head.size() + payload.size() - sent);
  if (sent < head.size())
    rest.insert(rest.end(), head.begin() + static_cast<std::ptrdiff_t>(sent), head.end());
  const auto unsent = payload.subspan(sent > head.size() ? sent - head.size() : 0);
  rest.insert(rest.end(), unsent.begin(), unsent.end());
  queued_bytes_ += rest.size();
  queue_.push_back(std::move(rest));
  update_interest();
  return true;
}

bool Link::flush() {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  want_write_ = false;
  bool whole = true;
  while (!queue_.empty()) {
    const Bytes& front = queue_.front();
    const ssize_t written = ::send(fd_, front.data() + front_sent_, front.size() - front_sent_, MSG_NOSIGNAL);
    if (written < 0) {
      if (errno == EINTR) continue;
      whole = errno == EAGAIN || errno == EWOULDBLOCK;
      if (!whole) send_error_ = errno;
      break;
    }
    front_sent_ += static_cast<std::size_t>(written);
    queued_bytes_ -= static_cast<std::size_t>(written);
    if (front_sent_ == front.size()) {
      queue_.pop_front();
      front_sent_ = 0;
    }
  }
  update_interest();
  room_.notify_all();
  return whole;
}

int Link::send_error() const {
  const std::lock_guard lock(mutex_);
  return send_error_;
}

bool Link::drained() const {
  const std::lock_guard lock(mutex_);
  return closed_ || queue_.empty();
}

void Link::shut_down_sending() {
  const std::lock_guard lock(mutex_);
  if (!closed_) ::shutdown(fd_, SHUT_WR);
}

void Link::close() {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  closed_ = true;
  ::close(fd_);  // leaves epoll by itself
  queue_.clear();
  queued_bytes_ = 0;
  room_.notify_all();
}

void Link::pause() {
  const std::lock_guard lock(mutex_);
  paused_ = true;
  update_interest();
}

void Link::resume() {
  const std::lock_guard lock(mutex_);
  if (!paused_) return;
  paused_ = false;
  update_interest();
}

Link::ReadEnd Link::read(const Receiver& receiver, Landings& landings) {
  std::size_t received = 0;
  while (received < read_turn && !paused_) {
    if (in_payload_ && frame_.header.length - payload_filled_ >= read_ahead_size) {
      const ReadEnd end = read_straight(landings, received);
      if (end != ReadEnd::more_later) return end;
      if (payload_filled_ == frame_.header.length && !finish_frame(receiver)) return ReadEnd::fault;
      continue;
    }
    const ssize_t got = ::recv(fd_, read_ahead_.data(), read_ahead_.size(), 0);
    if (got == 0) return ReadEnd::end_of_stream;
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return ReadEnd::more_later;
      return errno == ECONNRESET || errno == ECONNREFUSED ? ReadEnd::reset : ReadEnd::unproven_loss;
    }
    received += static_cast<std::size_t>(got);
    if (!consume(std::span(read_ahead_).first(static_cast<std::size_t>(got)), receiver, landings)) {
      return ReadEnd::fault;
    }
  }
  return ReadEnd::more_later;
}

// A large payload goes from the socket to where it belongs. Sets `received` beyond the turn when the socket
// is empty.
Link::ReadEnd Link::read_straight(Landings& landings, std::size_t& received) {
  ssize_t got = -1;
  int error = 0;
  const auto fill = [&](std::span<std::byte> buffer) {
    const auto room = buffer.subspan(payload_filled_);
    got = ::recv(fd_, room.data(), room.size(), 0);
    error = errno;
    if (got > 0) crc_ = crc32c(room.data(), static_cast<std::size_t>(got), crc_);
  };
  if (ticket_ && !landings.use(*ticket_, fill)) {
    ticket_.reset();
    discard_ = true;
    frame_.payload.resize(frame_.header.length);
  }
  if (!ticket_) fill(frame_.payload);
  if (got == 0) return ReadEnd::end_of_stream;
  if (got < 0) {
    if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) {
      received = read_turn;
      return ReadEnd::more_later;
    }
    return error == ECONNRESET ? ReadEnd::reset : ReadEnd::unproven_loss;
  }
  payload_filled_ += static_cast<std::size_t>(got);
  received += static_cast<std::size_t>(got);
  return ReadEnd::more_later;
}

bool Link::consume(std::span<const std::byte> bytes, const Receiver& receiver, Landings& landings) {
  while (!bytes.empty()) {
    if (!in_payload_) {
      const std::size_t take = std::min(bytes.size(), header_size - header_filled_);
      std::memcpy(header_bytes_.data() + header_filled_, bytes.data(), take);
      header_filled_ += take;
      bytes = bytes.subspan(take);
      if (header_filled_ < header_size) return true;
      if (!begin_payload(receiver)) return false;
    }
    const std::size_t take = std::min<std::size_t>(bytes.size(), frame_.header.length - payload_filled_);
    absorb(bytes.first(take), landings);
    bytes = bytes.subspan(take);
    if (payload_filled_ == frame_.header.length && !finish_frame(receiver)) return false;
  }
  return true;
}

bool Link::begin_payload(const Receiver& receiver) {
  header_filled_ = 0;
  frame_ = Frame();
  fault_ = decode(header_bytes_, receiver.length_limit, frame_.header);
  if (fault_ != WireFault::none) return false;
  if (frame_.header.sequence != received_frames_++) {
    fault_ = WireFault::checksum;
    return false;
  }
  in_payload_ = true;
  payload_filled_ = 0;
  crc_ = 0;
  discard_ = false;
  ticket_ = frame_.header.length > 0 ? receiver.place(frame_.header) : std::nullopt;
  if (!ticket_) frame_.payload.resize(frame_.header.length);
  return true;
}

void Link::absorb(std::span<const std::byte> bytes, Landings& landings) {
  if (bytes.empty()) return;
  const auto fill = [&](std::span<std::byte> buffer) {
    std::memcpy(buffer.data() + payload_filled_, bytes.data(), bytes.size());
  };
  if (ticket_ && !landings.use(*ticket_, fill)) {
    ticket_.reset();
    discard_ = true;
    frame_.payload.resize(frame_.header.length);
  }
  if (!ticket_) fill(frame_.payload);
  crc_ = crc32c(bytes.data(), bytes.size(), crc_);
  payload_filled_ += bytes.size();
}

bool Link::finish_frame(const Receiver& receiver) {
  in_payload_ = false;
  if (crc_ != frame_.header.payload_crc) {
    fault_ = WireFault::checksum;
    return false;
  }
  frame_.landed = ticket_.has_value();
  if (ticket_) frame_.landed_epoch = ticket_->epoch;
  ticket_.reset();
  return discard_ || receiver.deliver(std::move(frame_));
}

}  // namespace mlk::rt
