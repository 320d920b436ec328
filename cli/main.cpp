// Connects the process (arguments, streams, signals, exit code) with the command tree.

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <malloc.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "cli/app.h"
#include "cli/session/session.h"

namespace {

std::atomic<int> interrupted{0};
static_assert(std::atomic<int>::is_always_lock_free);

constexpr unsigned good_order_s = 2;

// After the first Ctrl-C, the command ends in good order and prints how to continue. After a second Ctrl-C,
// the command ends at once. It also ends at once if it still runs when the alarm comes, for example because
// it waits for an answer. Every command may be interrupted at any point and repeated.
void on_signal(int number) {
  if (interrupted.exchange(number) != 0) _exit(128 + number);
  ::alarm(good_order_s);
}

std::atomic<const mlk::Session*> session_of_alarm{nullptr};
static_assert(std::atomic<const char*>::is_always_lock_free);

void on_alarm(int) {
  const auto say = [](const char* text) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
  };
  say("mlk: error: interrupted\n");
  const mlk::Session* session = session_of_alarm;
  if (const char* way_back = session == nullptr ? nullptr : session->way_back.load(); way_back != nullptr) {
    say("hint: ");
    say(way_back);
    say("\n");
  }
  _exit(128 + interrupted.load());
}

// The parent process may have closed a standard stream. Then the next connection would get the descriptor of
// this stream, and output would go to the API server.
void open_missing_streams() {
  int fd = 0;
  while ((fd = ::open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO) {
  }
  if (fd > STDERR_FILENO) ::close(fd);
}

// An ignored signal stays ignored: a shell that starts mlk in the background, or under `trap '' INT`, wants
// mlk to continue.
void handle_unless_ignored(int number) {
  struct sigaction action{};
  if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = on_signal;
  ::sigaction(number, &action, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  // Makes the heap grow by 1 MiB at a time. glibc would ask the kernel for each page of a thread's heap, with
  // thousands of calls while trials start.
  ::mallopt(M_TOP_PAD, 1 << 20);
  open_missing_streams();
  handle_unless_ignored(SIGINT);
  handle_unless_ignored(SIGTERM);
  ::signal(SIGALRM, on_alarm);
  ::signal(SIGPIPE, SIG_IGN);  // a write fails if its reader has gone

  mlk::Session session{.out = std::cout,
                       .err = std::cerr,
                       .out_is_terminal = ::isatty(STDOUT_FILENO) == 1,
                       .err_is_terminal = ::isatty(STDERR_FILENO) == 1,
                       .version = MLK_VERSION,
                       .interrupted = interrupted,
                       .env =
                           [](const std::string& name) {
                             const char* value = std::getenv(name.c_str());
                             return std::string(value == nullptr ? "" : value);
                           },
                       .read_answer = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1
                                          ? [] {
                                              std::string line;
                                              std::getline(std::cin, line);
                                              return line;
                                            }
                                          : std::function<std::string()>(),
                       .global = {},
                       .exit_code = mlk::ExitCode::ok};
  session_of_alarm = &session;
  const int code = mlk::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc), session);
  session_of_alarm = nullptr;
  return code;
}
