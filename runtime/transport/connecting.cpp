// Makes connections: accepts those of strangers, dials peers by name or address.
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "runtime/transport/local_socket.h"
#include "runtime/transport/transport_impl.h"

namespace mlk::rt {
namespace {

void tune(int fd) {
  const int on = 1, idle = 10, interval = 5, probes = 3;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

bool out_of_resources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

void Transport::Impl::accept_all(SteadyTime now) {
  while (!closing_) {
    SocketAddress remote;
    remote.length = sizeof remote.storage;
    const int fd = accept4(listen_, reinterpret_cast<sockaddr*>(&remote.storage), &remote.length,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (out_of_resources(errno)) leave_out_listener(listen_);
      return;
    }
    tune(fd);
    add_stranger(fd, to_string(remote), Medium::tcp, now);
  }
}

void Transport::Impl::accept_local(SteadyTime now) {
  while (!closing_) {
    const int fd = accept_locally(listen_local_);
    if (fd < 0) {
      if (out_of_resources(errno)) leave_out_listener(listen_local_);
      return;
    }
    if (const auto process = peer_process(fd)) {
      add_stranger(fd, "process " + std::to_string(*process) + " of this host", Medium::one_host, now);
    } else {
      complain("a process of this host", "it is another user's");
      ::close(fd);
    }
  }
}

// Nothing can be accepted now, and epoll would report it again at once: the listener is left out until the
// next tick.
void Transport::Impl::leave_out_listener(int listener) {
  epoll_ctl(epoll_, EPOLL_CTL_DEL, listener, nullptr);
  accepting_ = false;
}

void Transport::Impl::add_stranger(int fd, const std::string& remote, Medium medium, SteadyTime now) {
  drop_oldest_stranger(now);
  const std::uint64_t id = next_id_++;
  Connection connection;
  connection.link = std::make_shared<Link>(fd, epoll_, id, remote, medium);
  connection.opened = connection.last_heard = connection.last_sent = now;
  connections_.emplace(id, std::move(connection));
}

void Transport::Impl::drop_oldest_stranger(SteadyTime now) {
  std::size_t strangers = 0;
  std::uint64_t oldest = 0;
  for (const auto& [id, connection] : connections_) {
    if (connection.dialled || connection.stage == Stage::established) continue;
    if (strangers++ == 0) oldest = id;  // ids grow with time
  }
  if (strangers >= options_.max_strangers) remove(oldest, now);
}

void Transport::Impl::start_rounds(SteadyTime now) {
  for (const PeerId peer : dialer_.due(now)) {
    const HostPort where = *dialer_.find(peer);
    if (const auto literal = literal_address(where)) {
      start_round(peer, {*literal}, now);
    } else {
      look_ups_[next_look_up_] = peer;
      resolver_.look_up(next_look_up_++, where);
    }
  }
}

void Transport::Impl::start_round(PeerId peer, const std::vector<SocketAddress>& addresses, SteadyTime now) {
  if (dialer_.find(peer) == nullptr || closing_) return;
  dialer_.attempts(peer, addresses.size(), now);
  for (const SocketAddress& address : addresses) open_attempt(peer, address, now);
}

// Within the host by the UNIX socket beside the address, if the peer has one.
void Transport::Impl::open_attempt(PeerId peer, const SocketAddress& address, SteadyTime now) {
  Medium medium = Medium::one_host;
  int fd = -1, outcome = 0;
  const bool locally = options_.unix_sockets && tcp_next_.erase(peer) == 0 && is_of_this_host(address);
  if (locally) fd = connect_locally(address);
  if (fd < 0) {
    medium = Medium::tcp;
    fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
      dialer_.attempt_over(peer, Dialer::Outcome::failed, now);
      return;
    }
    tune(fd);
    outcome = ::connect(fd, address.get(), address.length) == 0 ? 0 : errno;
    // The peer may have begun to listen in between, and it opens its UNIX socket first.
    if (const int late = locally ? connect_locally(address) : -1; late >= 0) {
      ::close(std::exchange(fd, late));
      medium = Medium::one_host;
      outcome = 0;
    }
  }
  const std::uint64_t id = next_id_++;
  Connection connection;
  connection.link = std::make_shared<Link>(fd, epoll_, id, to_string(address), medium);
  connection.stage = Stage::connecting;
  connection.dialled = true;
  connection.peer = peer;
  connection.opened = connection.last_heard = connection.last_sent = now;
  connection.link->want_write();
  connections_.emplace(id, std::move(connection));
  if (outcome != 0 && outcome != EINPROGRESS) {
    connections_.at(id).refused = outcome == ECONNREFUSED;
    remove(id, now);
  }
}

void Transport::Impl::finish_connect(Connection& connection) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(connection.link->fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    connection.doomed = true;
    connection.refused = error == ECONNREFUSED || error == ECONNRESET;
    return;
  }
  connection.link->flush();
  connection.stage = Stage::await_challenge;
  connection.ours = {self_.id, self_.incarnation, self_.address, random_nonce()};
  tell(connection, MessageType::hello, hello_payload(connection.ours));
}

}  // namespace mlk::rt
