#include "pod/base/output.h"

#include <cerrno>
#include <poll.h>
#include <string>
#include <unistd.h>

namespace mlk::pod {
namespace {

constexpr int time_to_say_ms = 1000;  // an agent must not block longer, since it serves other connections

}  // namespace

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

bool write_all(int fd, std::span<const std::byte> bytes, int longest_wait_ms) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(fd, bytes.data(), bytes.size());
    if (size > 0) bytes = bytes.subspan(static_cast<std::size_t>(size));
    if (size >= 0 || errno == EINTR) continue;
    pollfd wait{.fd = fd, .events = POLLOUT, .revents = 0};
    if (errno != EAGAIN || ::poll(&wait, 1, longest_wait_ms) == 0) return false;
  }
  return true;
}

void log(std::string_view text) {
  std::string line = "mlk: ";
  line += text;
  line += '\n';
  (void)write_all(2, bytes_of(line), time_to_say_ms);
}

void give_up(int code, std::string_view text) {
  log(text);
  ::_exit(code);
}

}  // namespace mlk::pod
