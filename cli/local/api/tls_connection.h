// One accepted connection: TLS with bounds on the time and bytes of a client that has not authenticated yet.
#pragma once

#include <chrono>
#include <string>

#include <httplib.h>

namespace mlk::local {

struct ConnectionLimits {
  std::chrono::milliseconds to_authenticate{10000};  // from the first byte to the token
  std::chrono::milliseconds to_read{30000};    // the wait for a byte, after the client has shown the token
  std::chrono::milliseconds to_write{300000};  // also ends a stream to a pager that nobody scrolls
  std::size_t header_bytes = 64 * 1024;        // of one request
};

// Only the thread that serves the connection may use this object. Does not own the socket.
class TlsConnection : public httplib::Stream {
 public:
  TlsConnection(SSL_CTX& context, int socket, const ConnectionLimits& limits);
  ~TlsConnection() override;
  TlsConnection(const TlsConnection&) = delete;
  TlsConnection& operator=(const TlsConnection&) = delete;

  bool shake_hands();
  // Waits for the first byte of the next request. False if no byte arrives in time.
  bool await_request(std::chrono::milliseconds patience);
  // Call after the headers of a request were read: other limits apply to the rest of the request.
  void end_of_headers(bool authenticated);

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* buffer, std::size_t size) override;
  ssize_t write(const char* data, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool wait(short events, Clock::time_point end) const;
  // Repeats the operation until the TLS library has completed it or the time is over. Returns its result, or
  // -1.
  template <class Operation>
  int complete(Clock::time_point end, const Operation& operation);
  Clock::time_point read_deadline() const;

  const int socket_;
  const ConnectionLimits limits_;
  const Clock::time_point begun_ = Clock::now();
  SSL* const ssl_;
  bool authenticated_ = false;
  bool in_headers_ = true;
  std::size_t header_bytes_ = 0;
};

}  // namespace mlk::local
