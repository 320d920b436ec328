#include "pod/idle.h"

#include <csignal>
#include <ctime>
#include <dirent.h>
#include <unistd.h>

#include "pod/base/output.h"

namespace mlk::pod {
namespace {

constexpr int day = 86400, longest_pause = 2;

volatile std::sig_atomic_t stopped = 0;

int number_of(const std::string& text) {
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || value > day) return 0;
    value = value * 10 + (c - '0');
  }
  return value;
}

bool others_run() {
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return false;
  const std::string own = std::to_string(::getpid());
  bool found = false;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string name = entry->d_name;
    if (name[0] >= '0' && name[0] <= '9' && name != own) found = true;
  }
  ::closedir(folder);
  return found;
}

}  // namespace

int idle(const std::string& seconds) {
  const int limit = number_of(seconds);
  if (limit < 1 || limit > day) give_up(64, "mlk-pod idle: " + seconds + " is no number of seconds");
  for (const int signal : {SIGTERM, SIGINT}) ::signal(signal, [](int) { stopped = 1; });
  for (int quiet = 0; stopped == 0 && quiet < limit;) {
    const int pause = limit - quiet < longest_pause ? limit - quiet : longest_pause;
    ::sleep(static_cast<unsigned>(pause));
    quiet = others_run() ? 0 : quiet + pause;
  }
  return 0;
}

}  // namespace mlk::pod
