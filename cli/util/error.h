// The one error type of mlk, and the exit codes that scripts may rely on.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace mlk {

// Part of the public interface: listed in man/mlk.1. The codes are the same in submit --wait, wait, logs -f
// and sweep.
enum class ExitCode {
  ok = 0,
  failure = 1,       // the command is valid, but mlk could not do it
  usage = 2,         // the command line, or a file of the user, is wrong
  not_found = 3,     // no such run, template or file
  cluster = 4,       // Kubernetes could not be reached, or refused
  run_failed = 5,    // the run failed
  cannot_start = 6,  // the run cannot start, or did not within --start-timeout
  disrupted = 7,     // the run failed, and the first cause was a disruption
  stopped = 8,       // the run was stopped
  timed_out = 124,
  interrupted = 130,
};

// Thrown where the cause of a problem is known; caught only in app.cpp.
//
// what(): one line, lower case, no full stop, naming the thing at fault. A file with several mistakes has
// several such lines, each "file:line:column: what" followed by the line and a caret.
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
