// Makes connections: accepts strangers (processes that have not proved themselves), and dials peers by name
// or address.
#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "runtime/transport/local_socket.h"
#include "runtime/transport/transport_impl.h"

namespace mlk::rt {

void Transport::Impl::accept(std::uint64_t id, SteadyTime now) {
  if (closing_) return;
  acceptor_->accept(id,
                    {.take = [&](int fd, const std::string& remote,
                                 Medium medium) { add_stranger(fd, remote, medium, now); },
                     .complain = [&](const std::string& remote, const char* why) { complain(remote, why); }});
}

void Transport::Impl::add_stranger(int fd, const std::string& remote, Medium medium, SteadyTime now) {
  drop_oldest_stranger(now);
  const std::uint64_t id = next_id_++;
  Connection connection;
  connection.link = std::make_shared<Link>(fd, loop_.epoll(), id, remote, medium);
  connection.handshake.emplace(key_, self_.run,
                               Introduction{self_.id, self_.incarnation, self_.address, random_nonce()});
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
  if (closing_ || !dialer_.attempts(peer, addresses.size(), now)) return;
  for (const SocketAddress& address : addresses) open_attempt(peer, address, now);
}

// Called when a connection with the peer works. Other attempts may be under way, at another address of the
// peer, or because the peer was silent. They would only replace this connection, and the state machines would
// see a loss.
void Transport::Impl::end_attempts(PeerId peer) {
  dialer_.connected(peer);
  for (auto& [id, other] : connections_) {
    if (other.stage != Stage::established && other.dialled && other.peer == peer) other.doomed = true;
  }
}

// If the peer is on this host and has the UNIX socket that belongs to the address, uses this socket.
// Otherwise uses TCP.
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
    set_tcp_options(fd);
    outcome = ::connect(fd, address.get(), address.length) == 0 ? 0 : errno;
    // The peer may have begun to listen meanwhile. It opens its UNIX socket first, so this function tries
    // that socket again.
    if (const int late = locally ? connect_locally(address) : -1; late >= 0) {
      ::close(std::exchange(fd, late));
      medium = Medium::one_host;
      outcome = 0;
    }
  }
  const std::uint64_t id = next_id_++;
  Connection connection;
  connection.link = std::make_shared<Link>(fd, loop_.epoll(), id, to_string(address), medium);
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
  connection.stage = Stage::handshake;
  connection.handshake.emplace(key_, self_.run,
                               Introduction{self_.id, self_.incarnation, self_.address, random_nonce()},
                               connection.peer);
  const Handshake::Message hello = connection.handshake->hello();
  send_control(connection, hello.type, hello.payload);
}

}  // namespace mlk::rt
