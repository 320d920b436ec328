// The sockets on which a process listens for its peers: TCP, and a UNIX socket beside it for this host.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/address.h"
#include "runtime/transport/frame_reader.h"
#include "runtime/transport/loop.h"

namespace mlk::rt {

// For one thread at a time.
class Acceptor {
 public:
  // The ids of the two sockets in the events of epoll.
  static constexpr std::uint64_t tcp_id = 1, local_id = 3;

  // Starts to listen at `where`. If another process holds that address, waits until the address is free, for
  // `patience` at most. Throws Failure if it cannot listen.
  Acceptor(const HostPort& where, Milliseconds patience, bool unix_socket);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  std::uint16_t port() const { return port_; }                 // the port that was really bound
  bool local_name_taken() const { return local_name_taken_; }  // by another process: no UNIX socket is used
  void watch(Loop& loop);

  // Accepts all connections that wait at the socket `id`. Calls take() with each descriptor, which take()
  // then owns. If a connection is from a process of another user, closes it and calls complain().
  struct Handlers {
    std::function<void(int fd, const std::string& remote, Medium medium)> take;
    std::function<void(const std::string& remote, const char* why)> complain;
  };
  void accept(std::uint64_t id, const Handlers& handlers);

  // Listens again if accept() failed earlier for lack of descriptors or memory. The caller calls
  // listen_again() from time to time.
  void listen_again();

 private:
  void accept_tcp(const Handlers& handlers);
  void accept_local(const Handlers& handlers);
  void leave_out(int listener);

  Loop* loop_ = nullptr;
  int tcp_ = -1, local_ = -1;
  std::uint16_t port_ = 0;
  bool local_name_taken_ = false, left_out_ = false;
};

// Sets the options that every TCP socket of a connection with a peer has.
void set_tcp_options(int fd);

}  // namespace mlk::rt
