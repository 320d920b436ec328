// One non-blocking socket that carries frames.
#include "runtime/transport/link.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

#include "runtime/base/crc32c.h"

namespace mlk::rt {
namespace {

// Below this size one copy through the kernel is cheaper than the overhead of the lane.
constexpr std::size_t lane_from = 16 * 1024;

// If the round trip is short, as within one host, a small send buffer keeps the data under way in the cache
// of the processor. This saves a third of the time that 64 MiB take. The kernel doubles the size to 512 KiB;
// 512 KiB in each round trip of 50 us are 84 Gbit/s.
constexpr std::uint32_t short_way_us = 50;
constexpr int send_buffer_of_short_way = 256 * 1024;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Link::Link(int fd, int epoll, std::uint64_t id, std::string remote, Medium medium)
    : epoll_(epoll), id_(id), remote_(std::move(remote)), medium_(medium), fd_(fd), reader_(medium) {
  update_interest();
}

Link::~Link() { close(); }

void Link::suit_send_buffer() {
  if (medium_ != Medium::tcp) return;
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  if (info.tcpi_rtt == 0 || info.tcpi_rtt > short_way_us) return;
  setsockopt(fd_, SOL_SOCKET, SO_SNDBUF, &send_buffer_of_short_way, sizeof send_buffer_of_short_way);
}

// A paused socket with nothing to write leaves epoll completely. Otherwise epoll would report again and again
// that the peer is gone.
void Link::update_interest() {
  if (closed_) return;
  std::uint32_t wanted = 0;
  if (!paused_) wanted |= EPOLLIN | EPOLLRDHUP;
  if (want_write_ || !queue_.empty()) wanted |= EPOLLOUT;
  if (wanted == interest_) return;
  epoll_event event{};
  event.events = wanted;
  event.data.u64 = id_;
  epoll_ctl(epoll_,
            wanted == 0      ? EPOLL_CTL_DEL
            : interest_ == 0 ? EPOLL_CTL_ADD
                             : EPOLL_CTL_MOD,
            fd_, &event);
  interest_ = wanted;
}

void Link::want_write() {
  const std::lock_guard lock(mutex_);
  want_write_ = true;
  update_interest();
}

Link::Sent Link::send(Header header, std::span<const std::byte> payload, std::size_t limit,
                      std::optional<std::uint32_t> checksum) {
  header.length = static_cast<std::uint32_t>(payload.size());
  header.payload_crc = payload_follows;
  if (medium_ == Medium::tcp)
    header.payload_crc = checksum ? *checksum : crc32c(payload.data(), payload.size());
  const std::lock_guard lock(mutex_);
  if (closed_) return Sent::closed;
  if (queued_bytes_ > 0 && queued_bytes_ + payload.size() > limit) return Sent::full;
  if (for_lane(header, payload)) {
    if (lane_->put(payload)) {
      header.payload_crc = payload_in_lane;
      payload = {};
    } else if (limit == 0 && payload.size() <= SharedLane::always_fits) {
      return Sent::full;
    }
  }
  header.sequence = sent_frames_++;
  const auto head = encode(header);
  const std::size_t sent = queue_.empty() && !want_write_ ? write(head, payload) : 0;
  if (sent < head.size() + payload.size()) queue(head, payload, sent);
  return Sent::yes;
}

bool Link::for_lane(const Header& header, std::span<const std::byte> payload) {
  if (medium_ != Medium::one_host || payload.size() < lane_from) return false;
  if (!lane_tried_) open_lane(header);
  lane_payload_ = std::min(payload.size(), SharedLane::always_fits);
  return lane_ != nullptr;
}

// Sends the lane's descriptor with the first byte of a separate frame. The lane is open only if the socket
// takes this byte at once.
void Link::open_lane(const Header& before) {
  if (!queue_.empty() || want_write_) return;
  int descriptor = -1;
  auto lane = SharedLane::create(descriptor);
  lane_tried_ = lane == nullptr;
  if (!lane) return;
  const Header header{.type = MessageType::lane,
                      .sender = before.sender,
                      .incarnation = before.incarnation,
                      .sequence = sent_frames_};
  auto head = encode(header);
  iovec part{head.data(), head.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  const ssize_t written = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  ::close(descriptor);
  if (written <= 0) return;
  lane_tried_ = true;
  lane_ = std::move(lane);
  ++sent_frames_;
  if (static_cast<std::size_t>(written) < head.size()) queue(head, {}, static_cast<std::size_t>(written));
}

// Returns the number of bytes that the socket took. The reading thread handles errors.
std::size_t Link::write(std::span<const std::byte> head, std::span<const std::byte> payload) {
  iovec parts[2] = {{const_cast<std::byte*>(head.data()), head.size()},
                    {const_cast<std::byte*>(payload.data()), payload.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = payload.empty() ? 1 : 2;
  const ssize_t written = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written < 0 && !would_block(errno)) send_error_ = errno;
  return written > 0 ? static_cast<std::size_t>(written) : 0;
}

void Link::queue(std::span<const std::byte> head, std::span<const std::byte> payload, std::size_t sent) {
  Bytes rest;
  rest.reserve(head.size() + payload.size() - sent);
  if (sent < head.size()) append(rest, head.subspan(sent));
  append(rest, payload.subspan(sent > head.size() ? sent - head.size() : 0));
  queued_bytes_ += rest.size();
  queue_.push_back(std::move(rest));
  update_interest();
}

bool Link::has_room() {
  const std::lock_guard lock(mutex_);
  room_wanted_ = !closed_ && !room();
  return !room_wanted_;
}

bool Link::room_again() {
  const std::lock_guard lock(mutex_);
  return room_wanted_ && !closed_ && room() && std::exchange(room_wanted_, false);
}

bool Link::room() const {
  return queue_.empty() && !want_write_ && (!lane_ || lane_->has_room(lane_payload_));
}

void Link::flush() {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  want_write_ = false;
  while (!queue_.empty()) {
    const Bytes& front = queue_.front();
    const ssize_t written = ::send(fd_, front.data() + front_sent_, front.size() - front_sent_, MSG_NOSIGNAL);
    if (written < 0) {
      if (errno == EINTR) continue;
      if (would_block(errno)) break;
      send_error_ = errno;  // nothing can be sent any more
      queue_.clear();
      queued_bytes_ = front_sent_ = 0;
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
}

int Link::send_error() const {
  const std::lock_guard lock(mutex_);
  return send_error_;
}

bool Link::drained() const {
  const std::lock_guard lock(mutex_);
  return closed_ || queue_.empty();
}

bool Link::waited_for() const {
  const std::lock_guard lock(mutex_);
  return !closed_ && (room_wanted_ || !queue_.empty());
}

std::size_t Link::queued_bytes() const {
  const std::lock_guard lock(mutex_);
  return queued_bytes_;
}

void Link::shut_down_sending() {
  const std::lock_guard lock(mutex_);
  if (!closed_) ::shutdown(fd_, SHUT_WR);
}

void Link::close() {
  const std::lock_guard lock(mutex_);
  if (closed_ && !given_up_) return;
  closed_ = true;
  given_up_ = false;
  ::close(fd_);  // also removes it from epoll
  queue_.clear();
  queued_bytes_ = 0;
}

void Link::give_up() {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  queue_.clear();
  queued_bytes_ = 0;
  want_write_ = false;
  paused_ = true;
  update_interest();
  closed_ = given_up_ = true;
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

}  // namespace mlk::rt
