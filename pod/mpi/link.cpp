#include "pod/mpi/link.h"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace mlk::mpi {
namespace {

constexpr std::size_t most_key_bytes = 4096;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::string read_key(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::string key(most_key_bytes, '\0');
  const ssize_t size = ::read(fd, key.data(), key.size());
  ::close(fd);
  key.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  while (!key.empty() && key.back() == '\n') key.pop_back();
  return key;
}

Nonce new_nonce() {
  Nonce nonce;
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    give_up(126, "the system gives no random numbers");
  return nonce;
}

addrinfo* look_up(const Address& where, int flags) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  addrinfo* found = nullptr;
  return ::getaddrinfo(where.host.empty() ? nullptr : where.host.c_str(), where.port.c_str(), &wanted,
                       &found) == 0
             ? found
             : nullptr;
}

void set(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

// Closes the connection to a silent host after 15 s, as mlk-runtime does.
void tune(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 2);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 15000);
}

bool connected(int fd, int timeout_ms) {
  pollfd wait{.fd = fd, .events = POLLOUT, .revents = 0};
  if (::poll(&wait, 1, timeout_ms) != 1) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

}  // namespace

std::int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

Address parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return {std::string(text), "7070"};
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

std::optional<int> parse_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

const Address* PodEnvironment::find(std::string_view host) const {
  for (const Address& each : all) {
    const std::string_view name = each.host;
    if (name == host || (!on_one_machine() && name.substr(0, name.find('.')) == host)) return &each;
  }
  return nullptr;
}

PodEnvironment read_pod_environment() {
  PodEnvironment out;
  const auto need = [](const char* name) {
    const std::string value = variable(name);
    if (value.empty())
      give_up(126, std::string(name) + " is not set: mlk starts this program, in the pods of framework: mpi");
    return value;
  };
  out.own = parse_address(need("MLK_ADDRESS"));
  out.role = need("MLK_ROLE");
  out.rank = need("MLK_RANK");
  out.key = read_key(need("MLK_SECRET"));
  if (out.key.size() < 32) give_up(126, "the run's key cannot be read from " + variable("MLK_SECRET"));
  out.folder = need("MLK_MPI_FOLDER");
  const std::string addresses = need("MLK_MPI_ADDRESSES");
  for (std::string_view rest = addresses; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(','));
    out.all.push_back(parse_address(one));
    rest.remove_prefix(one.size() == rest.size() ? one.size() : one.size() + 1);
  }
  const auto need_number = [&need](const char* name) {
    const std::string value = need(name);
    const int number = parse_number(value).value_or(-1);
    if (number < 0) give_up(126, std::string(name) + " must be a whole number, not " + value);
    return number;
  };
  out.processes = need_number("MLK_MPI_PROCESSES");
  out.patience_ms = std::int64_t{need_number("MLK_MPI_PATIENCE")} * 1000;
  return out;
}

Link::Link(int fd, Session::Side side, std::string_view key) : fd_(fd), session_(side, key, new_nonce()) {
  tune(fd);
}

Link::Link(Link&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), session_(std::move(other.session_)), since_(other.since_) {}

Link& Link::operator=(Link&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(session_, other.session_);
  std::swap(since_, other.since_);
  return *this;
}

Link::~Link() {
  if (fd_ >= 0) ::close(fd_);
}

short Link::events() const {
  return static_cast<short>(session_.output().empty() ? POLLIN : POLLIN | POLLOUT);
}

bool Link::flush() {
  while (!session_.output().empty()) {
    const auto out = session_.output();
    const ssize_t size = ::send(fd_, out.data(), out.size(), MSG_NOSIGNAL);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    session_.sent(static_cast<std::size_t>(size));
  }
  return true;
}

bool Link::work(short events) {
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) {
    std::array<std::byte, 65536> buffer;
    const ssize_t size = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (size == 0) return false;
    if (size < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (size > 0 && !session_.receive(std::span(buffer).first(static_cast<std::size_t>(size)))) return false;
  }
  return flush();
}

bool Link::wait(int longest_wait_ms) {
  pollfd own{.fd = fd_, .events = events(), .revents = 0};
  return ::poll(&own, 1, longest_wait_ms) < 0 || work(own.revents);
}

int listen_at(const Address& where) {
  // Uses the host only if it is a literal address, since a name may resolve to an address that the pod does
  // not have.
  addrinfo* found = look_up(where, AI_NUMERICHOST);
  if (found == nullptr) {
    sockaddr_in6 probe{};
    const int v6 = ::socket(AF_INET6, SOCK_STREAM, 0);
    probe.sin6_family = AF_INET6;
    const bool has_v6 = v6 >= 0 && ::bind(v6, reinterpret_cast<sockaddr*>(&probe), sizeof probe) == 0;
    if (v6 >= 0) ::close(v6);
    found = look_up({has_v6 ? "::" : "0.0.0.0", where.port}, AI_NUMERICHOST);
  }
  if (found == nullptr) give_up(126, "no address to listen at: " + where.host + ":" + where.port);
  const int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (found->ai_family == AF_INET6) set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  for (int tries = 100; ::bind(fd, found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd, 128) != 0;) {
    if (--tries == 0)
      give_up(75, "cannot listen at " + where.host + ":" + where.port + ": " + std::strerror(errno));
    ::poll(nullptr, 0, 100);
  }
  ::freeaddrinfo(found);
  return fd;
}

std::optional<Link> connect_to(const Address& where, std::string_view key, int timeout_ms) {
  addrinfo* found = look_up(where, 0);
  if (found == nullptr) return std::nullopt;
  const int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool there = fd >= 0 &&
                     (::connect(fd, found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS) &&
                     connected(fd, timeout_ms);
  ::freeaddrinfo(found);
  if (!there) {
    if (fd >= 0) ::close(fd);
    return std::nullopt;
  }
  return std::optional<Link>(std::in_place, fd, Session::Side::client, key);
}

bool wait_until_ready(Link& link, int timeout_ms) {
  const std::int64_t until = now_ms() + timeout_ms;
  while (!link.session().ready()) {
    const std::int64_t left = until - now_ms();
    if (left <= 0 || !link.wait(static_cast<int>(left))) return false;
  }
  return link.flush();
}

}  // namespace mlk::mpi
