// The one error type of mlk, and the exit codes that scripts may rely on.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace mlk {

// These codes are a part of the public interface, which man/mlk.1 describes. The commands mlk submit --wait,
// mlk wait, mlk logs -f and mlk sweep also show by these codes how a run or sweep has ended.
enum class ExitCode {
  ok = 0,
  failure = 1,       // the command is valid, but mlk could not do it
  usage = 2,         // the command line, or a file of the user, is wrong
  not_found = 3,     // no such run, sweep, template or file
  cluster = 4,       // Kubernetes or a registry could not be reached, or refused the request
  run_failed = 5,    // the run failed
  cannot_start = 6,  // the run cannot start, or did not start within --start-timeout
  disrupted = 7,     // the run failed, and the first cause was a disruption
  stopped = 8,       // the run was stopped
  timed_out = 124,
  interrupted = 130,
};

// Thrown where the cause of a problem is known. app.cpp reports each error that no other code catches.
//
// what(): one line, lower case, no full stop, naming the thing at fault. If a file has several mistakes,
// what() has "file:line:column: what" for each mistake, followed by that line of the file and a caret.
// hint(): the next thing to type or to change; empty if there is none.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what, std::string hint = "")
      : std::runtime_error(what), code_(code), hint_(std::move(hint)) {}

  ExitCode code() const { return code_; }
  const std::string& hint() const { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

}  // namespace mlk
