#include "runtime/base/stop_signal.h"

#include <csignal>
#include <filesystem>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/base/stop_signal");

using namespace mlk::rt;
using namespace std::chrono_literals;

TEST_CASE("StopSignal reports a signal by requested(), by its descriptor, and by the end of a wait") {
  for (int signal : {SIGTERM, SIGINT}) {
    // The signals go to a child process, so that other tests find the signals of this process unchanged.
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      StopSignal stop;
      if (stop.requested() || stop.wait(1ms)) _exit(1);
      kill(getpid(), signal);
      if (!stop.wait(1h)) _exit(2);
      if (!stop.requested() || !stop.requested()) _exit(3);
      pollfd entry{stop.fd(), POLLIN, 0};
      if (poll(&entry, 1, 0) != 1) _exit(4);
      _exit(42);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 42);
  }
}

TEST_CASE(
    "without a signal, StopSignal::wait() ends at its time limit; the destructor closes the descriptor") {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const auto count = [] {
      const std::filesystem::directory_iterator entries("/proc/self/fd");
      return std::distance(begin(entries), end(entries));
    };
    const auto before = count();
    {
      const StopSignal stop;
      if (stop.wait(0ms) || stop.wait(20ms) || stop.wait(-5ms)) _exit(1);
      if (count() != before + 1) _exit(2);
    }
    kill(getpid(), SIGTERM);  // the signal stays blocked
    _exit(count() == before ? 42 : 3);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 42);
}
