#include "cli/util/files.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/util/error.h"
#include "cli/util/hash.h"

namespace mlk {
namespace {

// Closes its descriptor at the end of the scope, and ignores errors of close().
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Error system_error(const std::string& what, const std::filesystem::path& path, int number) {
  return Error(ExitCode::failure, what + " " + path.string() + ": " + std::strerror(number));
}

Error too_large(const std::string& name, std::size_t limit) {
  return Error(ExitCode::usage, name + " is too large: more than " + std::to_string(limit) + " bytes");
}

std::filesystem::path xdg(const char* variable, const char* below_home) {
  if (const char* value = std::getenv(variable); value != nullptr && value[0] == '/') {
    return std::filesystem::path(value) / "mlk";
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] == '\0') {
    throw Error(ExitCode::failure, "no home folder", std::string("set HOME or ") + variable);
  }
  return std::filesystem::path(home) / below_home / "mlk";
}

void replace_file(const std::filesystem::path& path, std::string_view text, mode_t mode, bool to_disk) {
  const std::filesystem::path aside = beside(path);
  const auto fail = [&](bool is_made) {
    const int number = errno;
    if (is_made) ::unlink(aside.c_str());
    throw system_error("cannot write", path, number);
  };
  {
    const Descriptor file(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.get() < 0) fail(false);
    std::string_view rest = text;
    while (!rest.empty()) {
      const ssize_t count = ::write(file.get(), rest.data(), rest.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(true);
      rest.remove_prefix(static_cast<std::size_t>(count));
    }
    if (::fchmod(file.get(), mode) != 0 || (to_disk && ::fsync(file.get()) != 0)) fail(true);
  }
  if (::rename(aside.c_str(), path.c_str()) != 0) fail(true);
}

template <typename Home>
std::optional<std::filesystem::path> if_any(const Home& home) {
  try {
    return home();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::size_t limit) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    const int number = errno;
    const ExitCode code = number == ENOENT ? ExitCode::not_found : ExitCode::failure;
    throw Error(code, "cannot read " + path.string() + ": " + std::strerror(number));
  }
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) throw system_error("cannot read", path, errno);
  if (S_ISDIR(info.st_mode)) throw Error(ExitCode::usage, path.string() + " is a folder, not a file");
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode) && path != "/dev/null") {
    throw Error(ExitCode::usage, path.string() + " is not a plain file");
  }
  if (S_ISREG(info.st_mode) && static_cast<std::uintmax_t>(info.st_size) > limit)
    throw too_large(path.string(), limit);
  // From here on, each read waits for data: to read a pipe (process substitution) to its end, mlk must wait
  // for the writer.
  ::fcntl(file.get(), F_SETFL, 0);
  return read_descriptor(file.get(), path.string(), limit);
}

std::string read_descriptor(int descriptor, const std::string& name, std::size_t limit) {
  std::string text;
  char buffer[65536];
  while (true) {
    const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno == EAGAIN) {  // a process that shares the descriptor made it non-blocking
      pollfd readable{.fd = descriptor, .events = POLLIN, .revents = 0};
      if (::poll(&readable, 1, -1) > 0) continue;
    }
    // A signal came while mlk waited for the writer: the user wants to stop.
    if (count < 0 && errno == EINTR) throw Error(ExitCode::interrupted, "interrupted");
    if (count < 0) throw system_error("cannot read", name, errno);
    if (count == 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > limit) throw too_large(name, limit);
  }
}

void visit_folder(const std::filesystem::path& folder,
                  const std::function<void(const std::filesystem::directory_entry&)>& visit) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  while (!error && entry != std::filesystem::directory_iterator()) {
    visit(*entry);
    entry.increment(error);
  }
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
    throw Error(ExitCode::not_found, "there is no folder " + folder.string());
  }
  if (error) throw system_error("cannot read the folder", folder, error.value());
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text, mode_t mode) {
  replace_file(path, text, mode, true);
}

void write_checked_file(const std::filesystem::path& path, std::string_view text, mode_t mode) {
  replace_file(path, text, mode, false);
}

std::filesystem::path beside(const std::filesystem::path& path) {
  constexpr std::size_t bytes = 8;
  return path.string() + ".tmp-" + hex(random_bytes(bytes));
}

FolderToRemove::~FolderToRemove() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path state_home() { return xdg("XDG_STATE_HOME", ".local/state"); }
std::filesystem::path config_home() { return xdg("XDG_CONFIG_HOME", ".config"); }
std::filesystem::path cache_home() { return xdg("XDG_CACHE_HOME", ".cache"); }

std::optional<std::filesystem::path> state_home_if_any() { return if_any(state_home); }
std::optional<std::filesystem::path> config_home_if_any() { return if_any(config_home); }
std::optional<std::filesystem::path> cache_home_if_any() { return if_any(cache_home); }

}  // namespace mlk
