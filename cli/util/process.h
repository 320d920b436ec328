// Runs one child process: writes its input, captures its output, and limits its time and its output.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/util/error.h"

namespace mlk {

// Thrown if a program exists but this machine cannot execute it: the file lacks the permission, or is for
// another system. The exit code of the error is failure.
class CannotExecute : public Error {
 public:
  using Error::Error;
};

struct ProcessResult {
  int exit_code = 0;       // -1 if a signal ended the program
  int signal = 0;          // the signal that ended the program; 0: none
  bool timed_out = false;  // mlk killed the program at its time-out
  bool given_up = false;   // mlk killed the program because `go_on` returned false
  std::string output;
  std::string error;

  bool ok() const { return exit_code == 0 && signal == 0 && !timed_out && !given_up; }
};

struct Command {
  std::vector<std::string> argv;  // an argv[0] without a slash is looked up in PATH; no shell is used
  std::vector<std::pair<std::string, std::string>>
      env;                   // added to the environment of mlk; replaces variables of the same name
  bool empty_env = false;    // the child gets only the variables in `env`
  std::string folder;        // the working folder of the child; empty: that of mlk
  std::string input;         // written to stdin, which is then closed
  bool of_terminal = false;  // the child talks with the user: it has the stdin, stderr and process group of
                             // mlk, as only the foreground process group may read from the terminal
  std::chrono::milliseconds timeout{30000};
  std::size_t output_limit = 16u << 20;  // in bytes, for stdout and stderr separately
  // Called at least every 20 ms with the output so far. If it returns false, mlk kills the program.
  std::function<bool(const ProcessResult&)> go_on{};
};

// Runs the command and waits for its end, at most `timeout`. Blocks; may be called from any thread. The child
// leads its own process group, so that a time-out also ends the child's children. With `of_terminal`, a
// time-out ends only the child; Ctrl-C reaches the child's children through the terminal. Throws Error: usage
// if `argv` names no program, not_found if there is no such program, failure if the program prints too much
// or cannot be started (CannotExecute if this machine cannot execute it).
ProcessResult run_process(const Command& command);

}  // namespace mlk
