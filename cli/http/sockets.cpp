#include "cli/http/sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <new>
#include <sys/socket.h>
#include <unistd.h>

namespace mlk::http {
namespace {

int local_port(curl_socket_t socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

}  // namespace

void Socket::shut_down() const {
  if (number != CURL_SOCKET_BAD) ::shutdown(number, SHUT_RDWR);
}

void Sockets::watch(CURL* easy) {
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &Sockets::on_open);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, this);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, &Sockets::on_close);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, this);
}

std::shared_ptr<Socket> Sockets::with_port(int port) {
  for (const auto& [number, socket] : open_) {
    if (socket->port == 0) socket->port = local_port(number);
    if (port != 0 && socket->port == port) return socket;
  }
  return nullptr;
}

curl_socket_t Sockets::on_open(void* self, curlsocktype, curl_sockaddr* address) {
  const curl_socket_t number = ::socket(address->family, address->socktype, address->protocol);
  if (number == CURL_SOCKET_BAD) return number;
  ::fcntl(number, F_SETFD, FD_CLOEXEC);  // programs that mlk starts do not inherit the socket
  try {
    static_cast<Sockets*>(self)->open_[number] = std::make_shared<Socket>(Socket{.number = number});
  } catch (const std::bad_alloc&) {  // no exception may pass through libcurl
    ::close(number);
    return CURL_SOCKET_BAD;
  }
  return number;
}

int Sockets::on_close(void* self, curl_socket_t number) {
  auto& open = static_cast<Sockets*>(self)->open_;
  if (const auto found = open.find(number); found != open.end()) {
    found->second->number = CURL_SOCKET_BAD;
    open.erase(found);
  }
  return ::close(number);
}

}  // namespace mlk::http
