// The only place that touches the process: argv, streams, signals, exit.

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <signal.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "cli/app.h"
#include "cli/commands/session.h"
#include "cli/util/text.h"

namespace {

std::atomic<int> interrupted{0};
static_assert(std::atomic<int>::is_always_lock_free);

constexpr unsigned good_order_s = 2;

// The first Ctrl-C lets the command end in good order and say how to come back. The second one ends it at
// once, and so does the alarm, when the command still waits for an answer: every command can be cut off
// anywhere and repeated.
void on_signal(int number) {
  if (interrupted.exchange(number) != 0) _exit(128 + number);
  ::alarm(good_order_s);
}

void on_alarm(int) {
  static constexpr char text[] = "mlk: error: interrupted\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, sizeof text - 1);
  _exit(128 + interrupted.load());
}

std::filesystem::path own_path(const std::string& argv0) {
  if (argv0.find('/') != std::string::npos) return std::filesystem::absolute(argv0);
  const char* path = std::getenv("PATH");
  for (const std::string& folder : mlk::split(path == nullptr ? "" : path, ':')) {
    const std::filesystem::path candidate = std::filesystem::path(folder.empty() ? "." : folder) / argv0;
    if (::access(candidate.c_str(), X_OK) == 0) return std::filesystem::absolute(candidate);
  }
  return argv0;
}

}  // namespace

int main(int argc, char** argv) {
  struct sigaction action{};
  action.sa_handler = on_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGALRM, on_alarm);
  ::signal(SIGPIPE, SIG_IGN);  // a reader that has gone shows as a failed write

  mlk::Session session{.out = std::cout,
                       .err = std::cerr,
                       .out_is_terminal = ::isatty(STDOUT_FILENO) == 1,
                       .err_is_terminal = ::isatty(STDERR_FILENO) == 1,
                       .program = own_path(argc > 0 ? argv[0] : "mlk"),
                       .version = MLK_VERSION,
                       .interrupted = interrupted,
                       .env =
                           [](const std::string& name) {
                             const char* value = std::getenv(name.c_str());
                             return std::string(value == nullptr ? "" : value);
                           },
                       .global = {},
                       .exit_code = mlk::ExitCode::ok};
  const int code = mlk::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc), session);
  std::cout.flush();
  return code;
}
