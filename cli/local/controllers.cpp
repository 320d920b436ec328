#include "cli/local/controllers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/local/garbage.h"
#include "cli/local/jobs/jobs.h"
#include "cli/local/state/events.h"
#include "cli/util/error.h"

namespace mlk::local {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The time between two checks of the folders of all pods. A killed supervisor sends no notice, but the check
// finds out that it has ended.
constexpr milliseconds sweep_interval{1000};

Error system_error(const std::string& what) {
  return Error(ExitCode::failure, what + ": " + std::strerror(errno));
}

}  // namespace

Controllers::Controllers(Store& store, PodLogs& logs, const Paths& paths, std::filesystem::path program,
                         std::vector<std::string> gpus)
    : store_(store), kubelet_(store, logs, paths, std::move(program), std::move(gpus)) {
  if (::mkfifo(paths.fifo().c_str(), 0600) != 0 && errno != EEXIST)
    throw system_error("cannot make " + paths.fifo().string());
  // Opens the fifo for writing too: otherwise a read would report the end of the file while no supervisor has
  // the fifo open.
  fifo_ = ::open(paths.fifo().c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fifo_ < 0) throw system_error("cannot open " + paths.fifo().string());
  if (::pipe(wake_) != 0) throw system_error("pipe");
  for (const int fd : wake_) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  store_.on_change([this] { wake(); });
  thread_ = std::thread([this] { run(); });
}

Controllers::~Controllers() {
  store_.on_change(nullptr);
  stopping_ = true;
  wake();
  thread_.join();
  for (const int fd : {fifo_, wake_[0], wake_[1]}) ::close(fd);
}

void Controllers::wake() {
  if (woken_.exchange(true)) return;
  [[maybe_unused]] const ssize_t written = ::write(wake_[1], "x", 1);
}

void Controllers::run() {
  auto next_sweep = steady_clock::now();
  auto timeout = milliseconds(0);
  while (!stopping_) {
    struct pollfd fds[2] = {{fifo_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
    ::poll(fds, 2, static_cast<int>(timeout.count()));
    char bytes[64];
    while (::read(wake_[0], bytes, sizeof bytes) > 0) {
    }
    woken_ = false;  // before the objects are read: a later change wakes the loop again
    read_notices();
    const Time now = std::chrono::system_clock::now();
    const bool sweep = steady_clock::now() >= next_sweep;
    if (sweep) next_sweep = steady_clock::now() + sweep_interval;
    timeout = std::chrono::duration_cast<milliseconds>(next_sweep - steady_clock::now()) + milliseconds(1);
    try {
      const auto again = step_jobs(store_, now);
      if (sweep) limit_finished_pods(store_, most_finished_pods);
      kubelet_.step(now, sweep);
      if (something_goes() || sweep) collect_garbage(store_, now);
      if (sweep) expire_events(store_, now);
      if (again)
        timeout = std::min(timeout, std::chrono::duration_cast<milliseconds>(*again - now) + milliseconds(1));
    } catch (const std::exception& error) {  // for example a full disk; the loop tries again
      std::cerr << error.what() << '\n' << std::flush;
    }
    timeout = std::max(timeout, milliseconds(0));
  }
}

// Whether an object was deleted or marked as deleted since the last call. Without such a deletion, there is
// no new garbage. The search for garbage reads all objects, so the loop does not repeat the search for each
// pod that starts or ends.
bool Controllers::something_goes() {
  try {
    const auto changes = store_.changes_after(seen_, "", steady_clock::now());
    return std::any_of(changes.begin(), changes.end(), [](const Change& change) {
      return change.type == Change::Type::deleted ||
             change.object->at("metadata").contains("deletionTimestamp");
    });
  } catch (const StatusError&) {  // the history lacks some changes, so there may be garbage
    seen_ = store_.revision();
    return true;
  }
}

void Controllers::read_notices() {
  char bytes[16384];
  ssize_t count;
  while ((count = ::read(fifo_, bytes, sizeof bytes)) > 0) {
    notices_.append(bytes, static_cast<std::size_t>(count));
    std::size_t begin = 0;
    for (std::size_t end; (end = notices_.find('\n', begin)) != notices_.npos; begin = end + 1) {
      kubelet_.notice(notices_.substr(begin, end - begin));
    }
    notices_.erase(0, begin);
    if (notices_.size() > sizeof bytes) notices_.clear();
  }
}

}  // namespace mlk::local
