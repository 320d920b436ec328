// How a process of the run ends: the codes of CONTRACT.md, and the exception that carries a code.
#pragma once

#include <stdexcept>
#include <string>

namespace mlk::rt {

enum class ExitCode : int {
  trained = 0,
  bad_configuration = 64,
  bad_data = 65,
  diverged = 66,
  checkpoint_unusable = 67,
  internal_error = 70,
  peers_lost = 75,
  terminated = 143,
};

// True for codes that fail the whole run, because a retry cannot help.
constexpr bool is_final(ExitCode code) {
  return code >= ExitCode::bad_configuration && code <= ExitCode::checkpoint_unusable;
}

// The function that finds the cause of a failure throws a Failure. run.cpp catches the Failure, prints
// what() and returns the exit code. what(): one lower-case line that names the thing at fault.
struct Failure : std::runtime_error {
  Failure(ExitCode exit_code, const std::string& what) : std::runtime_error(what), code(exit_code) {}
  ExitCode code;
};

}  // namespace mlk::rt
