// Listens, and accepts connections of processes that have not proved themselves yet.
#include "runtime/transport/acceptor.h"

#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/listen.h"
#include "runtime/transport/local_socket.h"

namespace mlk::rt {
namespace {

SocketAddress bound_address(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  return address;
}

bool out_of_resources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

void set_tcp_options(int fd) {
  const int on = 1, idle = 10, interval = 5, probes = 3;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

Acceptor::Acceptor(const HostPort& where, Milliseconds patience, bool unix_socket) {
  SocketAddress bound;
  // The UNIX socket listens first, because a peer of this host that has connected by TCP stays with TCP.
  tcp_ = listen_at(where, patience, [&](int fd) {
    bound = bound_address(fd);
    if (!unix_socket) return;
    local_ = listen_locally(bound);
    local_name_taken_ = local_ < 0 && errno == EADDRINUSE;
  });
  // An IPv6 address has the port at the same place.
  port_ = ntohs(reinterpret_cast<const sockaddr_in*>(bound.get())->sin_port);
}

Acceptor::~Acceptor() {
  ::close(tcp_);
  if (local_ >= 0) ::close(local_);
}

void Acceptor::watch(Loop& loop) {
  loop_ = &loop;
  loop.watch(tcp_, tcp_id);  // fails, without harm, if the loop watches this socket already
  if (local_ >= 0) loop.watch(local_, local_id);
}

void Acceptor::accept(std::uint64_t id, const Handlers& handlers) {
  if (id == tcp_id) accept_tcp(handlers);
  if (id == local_id) accept_local(handlers);
}

void Acceptor::accept_tcp(const Handlers& handlers) {
  while (true) {
    SocketAddress remote;
    remote.length = sizeof remote.storage;
    const int fd = accept4(tcp_, reinterpret_cast<sockaddr*>(&remote.storage), &remote.length,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (out_of_resources(errno)) leave_out(tcp_);
      return;
    }
    set_tcp_options(fd);
    handlers.take(fd, to_string(remote), Medium::tcp);
  }
}

void Acceptor::accept_local(const Handlers& handlers) {
  while (true) {
    const int fd = accept_locally(local_);
    if (fd < 0) {
      if (out_of_resources(errno)) leave_out(local_);
      return;
    }
    if (const auto process = peer_process(fd)) {
      handlers.take(fd, "process " + std::to_string(*process) + " of this host", Medium::one_host);
    } else {
      handlers.complain("a process of this host", "it is another user's");
      ::close(fd);
    }
  }
}

// Removes the socket from epoll until listen_again(). As long as accept() fails, epoll would report the
// socket again and again.
void Acceptor::leave_out(int listener) {
  epoll_ctl(loop_->epoll(), EPOLL_CTL_DEL, listener, nullptr);
  left_out_ = true;
}

void Acceptor::listen_again() {
  if (!left_out_) return;
  left_out_ = false;
  watch(*loop_);
}

}  // namespace mlk::rt
