#include "cli/local/api/unauthenticated.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#endif

namespace mlk::local {

#ifdef __linux__
namespace {

std::optional<sockaddr_in> address_by(int (*of)(int, sockaddr*, socklen_t*), int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  const bool is_known = of(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
                        size == sizeof address && address.sin_family == AF_INET;
  return is_known ? std::optional(address) : std::nullopt;
}

// The kernel's answer about the socket at the other end of a connection (sock_diag(7)). The question is a
// single look-up. A search of /proc/net/tcp would be slow, since other users can make this file long.
std::optional<inet_diag_msg> ask_kernel(const sockaddr_in& its, const sockaddr_in& ours) {
  struct {
    nlmsghdr head;
    inet_diag_req_v2 which;
  } question{};
  question.head.nlmsg_len = sizeof question;
  question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.head.nlmsg_flags = NLM_F_REQUEST;
  question.which.sdiag_family = AF_INET;
  question.which.sdiag_protocol = IPPROTO_TCP;
  question.which.idiag_states = ~0U;
  question.which.id.idiag_sport = its.sin_port;
  question.which.id.idiag_dport = ours.sin_port;
  question.which.id.idiag_src[0] = its.sin_addr.s_addr;
  question.which.id.idiag_dst[0] = ours.sin_addr.s_addr;
  question.which.id.idiag_cookie[0] = question.which.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  struct {
    nlmsghdr head;
    inet_diag_msg found;
    char more[4096];
  } answer{};
  const int kernel = ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  const bool is_sent = ::send(kernel, &question, sizeof question, 0) == sizeof question;
  const ssize_t size = is_sent ? ::recv(kernel, &answer, sizeof answer, MSG_DONTWAIT) : -1;
  ::close(kernel);
  const bool is_found = size >= static_cast<ssize_t>(sizeof answer.head + sizeof answer.found) &&
                        answer.head.nlmsg_type == SOCK_DIAG_BY_FAMILY;
  return is_found ? std::optional(answer.found) : std::nullopt;
}

}  // namespace

std::optional<uid_t> user_of_peer(int socket) {
  constexpr int established = 1;  // a closed socket has another state, and belongs to root
  const auto its = address_by(::getpeername, socket), ours = address_by(::getsockname, socket);
  if (!its || !ours) return std::nullopt;
  const std::optional<inet_diag_msg> found = ask_kernel(*its, *ours);
  return found && found->idiag_state == established ? std::optional<uid_t>(found->idiag_uid) : std::nullopt;
}
#else
std::optional<uid_t> user_of_peer(int) { return std::nullopt; }
#endif

void UnauthenticatedConnections::enter(int socket, Side side) {
  const std::lock_guard lock(mutex_);
  std::deque<int>& sockets = side == Side::ours ? ours_ : others_;
  sockets.push_back(socket);
  if (sockets.size() <= most_) return;
  // The shutdown wakes the thread of the connection. The thread finds the end of the connection and calls
  // leave().
  ::shutdown(sockets.front(), SHUT_RDWR);
  sockets.pop_front();
}

void UnauthenticatedConnections::leave(int socket) {
  const std::lock_guard lock(mutex_);
  std::erase(ours_, socket);
  std::erase(others_, socket);
}

}  // namespace mlk::local
