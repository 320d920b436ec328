// Checks that mlk finds the sockets that libcurl opens by their local ports, for IPv4 and IPv6.
#include "cli/http/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("http/sockets");

using namespace mlk::http;

namespace {

// A socket that listens at an address of this machine; -1 if the machine has no such address.
int listen_at(const sockaddr* address, socklen_t length, int& port) {
  const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::bind(fd, address, length) != 0 || ::listen(fd, 4) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    ::close(fd);
    return -1;
  }
  port = ntohs(own.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(own).sin_port
                                        : reinterpret_cast<const sockaddr_in6&>(own).sin6_port);
  return fd;
}

void check_found(const sockaddr* address, socklen_t length, const std::string& host) {
  int port = 0;
  const int listener = listen_at(address, length, port);
  if (listener < 0) {
    MESSAGE("this machine has no " << host);
    return;
  }
  Sockets sockets;
  CURL* easy = curl_easy_init();
  curl_easy_setopt(easy, CURLOPT_URL, ("http://" + host + ":" + std::to_string(port)).c_str());
  curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  sockets.watch(easy);
  REQUIRE(curl_easy_perform(easy) == CURLE_OK);
  long local = 0;
  REQUIRE(curl_easy_getinfo(easy, CURLINFO_LOCAL_PORT, &local) == CURLE_OK);
  REQUIRE(sockets.all().size() == 1);
  CHECK_FALSE(sockets.with_port(0));
  const std::shared_ptr<Socket> found = sockets.with_port(static_cast<int>(local));
  REQUIRE(found);
  CHECK(found->number != CURL_SOCKET_BAD);
  CHECK_FALSE(sockets.with_port(static_cast<int>(local) + 1));
  const int other_end = ::accept(listener, nullptr, nullptr);
  found->shut_down();
  char byte;
  CHECK(::read(other_end, &byte, 1) == 0);
  curl_easy_cleanup(easy);
  CHECK(found->number == CURL_SOCKET_BAD);  // an owner of the old Socket cannot close a newer socket
  CHECK(sockets.all().empty());
  found->shut_down();
  ::close(other_end);
  ::close(listener);
}

}  // namespace

TEST_CASE("with_port() finds a socket by its local port until the socket is closed") {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  check_found(reinterpret_cast<const sockaddr*>(&v4), sizeof v4, "127.0.0.1");
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_loopback;
  check_found(reinterpret_cast<const sockaddr*>(&v6), sizeof v6, "[::1]");
}

TEST_CASE("with_port() finds the right one of several open sockets") {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int port = 0;
  const int listener = listen_at(reinterpret_cast<const sockaddr*>(&v4), sizeof v4, port);
  REQUIRE(listener >= 0);
  Sockets sockets;
  CURL* handles[2] = {curl_easy_init(), curl_easy_init()};
  long ports[2] = {};
  for (int i = 0; i < 2; ++i) {
    curl_easy_setopt(handles[i], CURLOPT_URL, ("http://127.0.0.1:" + std::to_string(port)).c_str());
    curl_easy_setopt(handles[i], CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(handles[i], CURLOPT_PROXY, "");
    sockets.watch(handles[i]);
    REQUIRE(curl_easy_perform(handles[i]) == CURLE_OK);
    REQUIRE(curl_easy_getinfo(handles[i], CURLINFO_LOCAL_PORT, &ports[i]) == CURLE_OK);
  }
  for (int i = 0; i < 2; ++i) {
    curl_socket_t number = CURL_SOCKET_BAD;
    REQUIRE(curl_easy_getinfo(handles[i], CURLINFO_ACTIVESOCKET, &number) == CURLE_OK);
    const auto found = sockets.with_port(static_cast<int>(ports[i]));
    REQUIRE(found);
    CHECK(found->number == number);
  }
  for (CURL* handle : handles) curl_easy_cleanup(handle);
  ::close(listener);
}
