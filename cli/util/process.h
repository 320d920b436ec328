// One child process, from its start to its end: input, captured output, a bound on time and size.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/util/error.h"

namespace mlk {

// Thrown for a program that exists, but that this machine cannot execute: its file may not be executed, or is
// for another system. The code is failure.
class CannotExecute : public Error {
 public:
  using Error::Error;
};

struct ProcessResult {
  int exit_code = 0;       // if the program ended by itself; otherwise -1
  int signal = 0;          // the signal that ended the program; 0: none
  bool timed_out = false;  // killed by us, with all of its process group
  bool given_up = false;   // killed as at a time-out, because `go_on` returned false
  std::string output;
  std::string error;

  bool ok() const { return exit_code == 0 && signal == 0 && !timed_out && !given_up; }
};

struct Command {
  std::vector<std::string> argv;  // argv[0] without a slash is looked up in PATH; no shell
  std::vector<std::pair<std::string, std::string>>
      env;                     // added to our environment; replaces variables of the same name
  bool empty_env = false;      // start from no environment instead of ours
  std::string folder;          // folder to run in; empty: ours
  std::string input;           // written to stdin, which is then closed
  bool inherit_error = false;  // stderr goes where ours goes, not into `error`
  bool of_terminal = false;    // it talks with the user: stdin and stderr are ours, and so is the process
                               // group, as only the one in the foreground may read from the terminal
  std::chrono::milliseconds timeout{30000};
  std::size_t output_limit = 16u << 20;  // of stdout and of stderr, each
  // Called every 20 ms with the output so far; false kills the program, like a time-out.
  std::function<bool(const ProcessResult&)> go_on{};
};

// Runs the command and waits for its end, at most `timeout`. Blocks; may be called from any thread. The child
// leads its own process group, so that a time-out also ends the child's children. With `of_terminal` a
// time-out ends only the child; Ctrl-C reaches the child's children through the terminal. Throws Error:
// not_found if there is no such program, failure if it cannot be started (CannotExecute) or prints too much.
ProcessResult run_process(const Command& command);

}  // namespace mlk
