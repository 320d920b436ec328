#include "pod/send.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <span>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "pod/base/output.h"
#include "pod/tree.h"
#include "runtime/base/hmac.h"

namespace mlk::pod {
namespace {

constexpr std::size_t part_bytes = 256 << 10, longest_request = 256 << 20;
constexpr int no_request = 64;

// Standard output, in large parts.
class Output {
 public:
  void add(std::span<const std::byte> bytes) {
    if (held_.size() + bytes.size() > part_bytes) flush();
    if (bytes.size() >= part_bytes) {
      good_ = good_ && write_all(STDOUT_FILENO, bytes, -1);
    } else {
      held_.insert(held_.end(), bytes.begin(), bytes.end());
    }
  }
  void add(std::string_view text) { add(bytes_of(text)); }
  bool flush() {
    good_ = good_ && write_all(STDOUT_FILENO, held_, -1);
    held_.clear();
    return good_;
  }
  bool good() const { return good_; }

 private:
  std::vector<std::byte> held_;
  bool good_ = true;
};

struct Wanted {
  std::uint64_t offset = 0;
  std::string path;
};

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}

bool read_exactly(std::string& out, std::size_t size) {
  out.resize(size);
  for (std::size_t at = 0; at < size;) {
    const ssize_t came = ::read(STDIN_FILENO, out.data() + at, size - at);
    if (came < 0 && errno == EINTR) continue;
    if (came <= 0) return false;
    at += static_cast<std::size_t>(came);
  }
  return true;
}

bool parse_size(std::string_view text, std::uint64_t& out) {
  constexpr std::size_t most_digits = 18;
  out = 0;
  if (text.empty() || text.size() > most_digits) return false;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    out = out * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return true;
}

// Whether the path stays below a folder.
bool stays_below(std::string_view path) {
  if (path.empty() || path.front() == '/') return false;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    if (path.substr(at, slash - at) == "..") return false;
    at = slash + 1;
  }
  return true;
}

bool read_request(std::vector<Wanted>& wanted) {
  std::string line, body, byte;
  while (read_exactly(byte, 1) && byte != "\n" && line.size() < 20) line += byte;
  std::uint64_t size = 0;
  if (!parse_size(line, size) || size > longest_request || !read_exactly(body, size)) return false;
  for (std::string_view rest = body; !rest.empty();) {
    const std::size_t end = rest.find('\0'), blank = rest.find(' ');
    Wanted one;
    if (end == rest.npos || blank == rest.npos || blank > end ||
        !parse_size(rest.substr(0, blank), one.offset))
      return false;
    one.path = rest.substr(blank + 1, end - blank - 1);
    if (!stays_below(one.path)) return false;
    wanted.push_back(std::move(one));
    rest.remove_prefix(end + 1);
  }
  return true;
}

void list_below(const std::string& folder, const std::string& below, Output& out) {
  std::vector<std::string> names;
  if (!names_in(folder, names)) {
    out.add("e 0 0 0 " + below + ": " + std::strerror(errno));
    return out.add(std::string_view("\0", 1));
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name, shown = below.empty() ? name : below + "/" + name;
    struct stat info{};
    if (!out.good() || ::lstat(path.c_str(), &info) != 0) continue;
    const char kind = S_ISREG(info.st_mode)   ? 'f'
                      : S_ISDIR(info.st_mode) ? 'd'
                      : S_ISLNK(info.st_mode) ? 'l'
                                              : 0;
    if (kind == 0) continue;
    char head[80];
    std::snprintf(head, sizeof head, "%c %o %lld %lld ", kind, info.st_mode & 07777u,
                  static_cast<long long>(info.st_size), static_cast<long long>(nanoseconds(info.st_mtim)));
    out.add(head);
    out.add(shown);
    out.add(std::string_view("\0", 1));
    if (kind == 'l') {
      char target[PATH_MAX];
      const ssize_t size = ::readlink(path.c_str(), target, sizeof target);
      out.add(std::string_view(target, size > 0 ? static_cast<std::size_t>(size) : 0));
      out.add(std::string_view("\0", 1));
    }
    if (kind == 'd') list_below(path, shown, out);
  }
}

std::string hex(const rt::Digest& digest) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte byte : digest) {
    out += digits[std::to_integer<unsigned>(byte) >> 4];
    out += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return out;
}

// Sends the file from the offset on, and the hash of the whole file. Returns what went wrong, or "".
std::string send_open(int file, std::uint64_t offset, Output& out) {
  struct stat info{};
  if (::fstat(file, &info) != 0) return std::strerror(errno);
  if (!S_ISREG(info.st_mode)) return "not a file";
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (offset > size) return "became shorter";
  out.add(std::to_string(size) + " " + std::to_string(nanoseconds(info.st_mtim)) + "\n");
  rt::Sha256 hash;
  std::vector<std::byte> part(part_bytes);
  for (std::uint64_t at = 0; at < size && out.good();) {
    const std::size_t limit = std::min<std::uint64_t>(part.size(), (at < offset ? offset : size) - at);
    const ssize_t came = ::read(file, part.data(), limit);
    if (came < 0 && errno == EINTR) continue;
    if (came <= 0) return came < 0 ? std::strerror(errno) : "became shorter";
    const std::span<const std::byte> bytes = std::span(part).first(static_cast<std::size_t>(came));
    hash.add(bytes);
    if (at >= offset) {
      out.add(std::to_string(came) + "\n");
      out.add(bytes);
    }
    at += static_cast<std::uint64_t>(came);
  }
  out.add("0 " + hex(hash.digest()) + "\n");
  return {};
}

void send_file(const std::string& path, std::uint64_t offset, Output& out) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const std::string wrong = file < 0 ? std::strerror(errno) : send_open(file, offset, out);
  if (file >= 0) ::close(file);
  if (!wrong.empty()) out.add("- " + wrong + "\n");
}

}  // namespace

int send(const std::string& folder) {
  std::vector<Wanted> wanted;
  if (!read_request(wanted)) return no_request;
  Output out;
  if (wanted.empty()) {
    struct stat info{};
    const bool there = ::stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
    if (there) list_below(folder, "", out);
    out.add(there ? std::string_view("end\0", 4) : std::string_view("none\0", 5));
  }
  for (const Wanted& one : wanted) send_file(folder + "/" + one.path, one.offset, out);
  return out.flush() ? 0 : 1;
}

}  // namespace mlk::pod
