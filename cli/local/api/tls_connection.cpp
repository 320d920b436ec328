#include "cli/local/api/tls_connection.h"

#include <algorithm>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

namespace mlk::local {

TlsConnection::TlsConnection(SSL_CTX& context, int socket, const ConnectionLimits& limits)
    : socket_(socket), limits_(limits), ssl_(::SSL_new(&context)) {
  const int yes = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK);
  if (ssl_ == nullptr) return;
  ::SSL_set_fd(ssl_, socket_);
  ::SSL_set_mode(ssl_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

TlsConnection::~TlsConnection() {
  if (ssl_ == nullptr) return;
  ::SSL_shutdown(ssl_);  // sends close_notify without waiting for an answer
  ::SSL_free(ssl_);
}

bool TlsConnection::wait(short events, Clock::time_point end) const {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return false;
    struct pollfd one = {socket_, events, 0};
    const int count = ::poll(&one, 1, static_cast<int>(std::min<long long>(left.count(), 60000)));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
  }
}

template <class Operation>
int TlsConnection::complete(Clock::time_point end, const Operation& operation) {
  while (ssl_ != nullptr) {
    ::ERR_clear_error();
    const int result = operation();
    if (result > 0) return result;
    const int error = ::SSL_get_error(ssl_, result);
    if (error == SSL_ERROR_ZERO_RETURN) return 0;
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return -1;
    if (!wait(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, end)) return -1;
  }
  return -1;
}

TlsConnection::Clock::time_point TlsConnection::read_deadline() const {
  return authenticated_ ? Clock::now() + limits_.to_read : begun_ + limits_.to_authenticate;
}

bool TlsConnection::shake_hands() {
  return complete(read_deadline(), [&] { return ::SSL_accept(ssl_); }) > 0;
}

bool TlsConnection::await_request(std::chrono::milliseconds patience) {
  in_headers_ = true;
  header_bytes_ = 0;
  auto end = Clock::now() + patience;
  if (!authenticated_) end = std::min(end, read_deadline());
  return ::SSL_pending(ssl_) > 0 || wait(POLLIN, end);
}

void TlsConnection::end_of_headers(bool authenticated) {
  in_headers_ = false;
  authenticated_ = authenticated_ || authenticated;
}

bool TlsConnection::is_readable() const {
  return ::SSL_pending(ssl_) > 0 || wait(POLLIN, Clock::now() + limits_.to_read);
}

// Whether the client is still connected. Streams check this while they have nothing to send.
bool TlsConnection::is_writable() const {
#ifdef POLLRDHUP
  constexpr short gone = POLLERR | POLLHUP | POLLNVAL | POLLRDHUP;
#else
  constexpr short gone = POLLERR | POLLHUP | POLLNVAL;
#endif
  struct pollfd one = {socket_, gone, 0};
  return ::poll(&one, 1, 0) >= 0 && (one.revents & gone) == 0;
}

ssize_t TlsConnection::read(char* buffer, std::size_t size) {
  if (in_headers_) {
    if (header_bytes_ >= limits_.header_bytes) return -1;
    size = std::min(size, limits_.header_bytes - header_bytes_);
  }
  const auto end = read_deadline();
  if (Clock::now() >= end) return -1;
  const int count = complete(
      end, [&] { return ::SSL_read(ssl_, buffer, static_cast<int>(std::min<std::size_t>(size, 1 << 30))); });
  if (count > 0 && in_headers_) header_bytes_ += static_cast<std::size_t>(count);
  return count;
}

ssize_t TlsConnection::write(const char* data, std::size_t size) {
  if (size == 0) return 0;
  return complete(Clock::now() + limits_.to_write, [&] {
    return ::SSL_write(ssl_, data, static_cast<int>(std::min<std::size_t>(size, 1 << 30)));
  });
}

// The server listens at one address and logs no clients, so these functions need no real addresses.
void TlsConnection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}
void TlsConnection::get_local_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

}  // namespace mlk::local
